"""Pipelines that run as they are; the studio offers them as examples."""
