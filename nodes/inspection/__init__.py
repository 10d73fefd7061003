"""Compute what the Inspect page shows: figures of the layers, and t-SNE maps."""
