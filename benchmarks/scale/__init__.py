"""Measure what a deep forest costs on a cluster, model it, simulate it: ``docs/scale.md``.

- ``runs``      the runs that are measured, and which of them the model is not fitted to
- ``jobs``      one run in its own process
- ``cluster``   runs on a real Dask cluster of this machine
- ``work``      the fits of a run, by the library's own rules
- ``model``     the cost model
- ``simulate``  the scheduler's own rules on a simulated clock
- ``scenario``  the largest run of the papers on 10 to 200 machines
- ``page``      the page made from the results
"""
