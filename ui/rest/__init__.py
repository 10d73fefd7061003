"""The HTTP service that returns predictions of one model."""
