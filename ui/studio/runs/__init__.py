"""The Runs page: the list of runs, and one run with its graph, timeline, logs and fits."""
