"""Measure the tables of the papers: ``python -m benchmarks.papers [TABLE …]``.

- ``tables``   what each paper reports, and the data sets, methods, settings and seeds measured here
- ``data``     the rows of each data set: training, validation and test rows
- ``methods``  fits a method; what it chooses, it chooses on training and validation rows
- ``jobs``     one fit in its own process: scores on test rows, CPU seconds, peak memory
- ``results``  one small file per finished job, so that a run that was stopped continues
- ``page``     writes ``docs/results.md`` from the results
"""
