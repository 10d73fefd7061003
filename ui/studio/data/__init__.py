"""Data: the tables of the workspace."""
