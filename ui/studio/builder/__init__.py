"""The builder: the pipelines there are, and the one that is open on the canvas."""
