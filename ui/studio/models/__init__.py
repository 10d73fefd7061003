"""Models: what was trained and kept, and how to use it."""
