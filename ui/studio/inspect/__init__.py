"""Inspect: inside a deep forest, layer by layer."""
