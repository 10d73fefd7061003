"""The HTTP service that answers with predictions of one model."""
