"""What a deep forest costs on a cluster: measured runs, a cost model, a simulation, ``docs/scale.md``.

- ``runs``      the runs that are measured, and which of them the model is not fitted to
- ``jobs``      one run in its own process
- ``cluster``   runs on a real Dask cluster of this machine
- ``model``     the cost model
- ``simulate``  the scheduler's own rules on a simulated clock
- ``page``      the page made from the results
"""
