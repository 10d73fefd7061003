"""The runs there were: their history, and one of them with its graph, times, logs and the jobs inside a forest."""
