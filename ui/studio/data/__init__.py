"""The page Data: the tables of the workspace."""
