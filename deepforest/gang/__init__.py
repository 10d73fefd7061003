"""Fit one learner by several processes together, each on its part of the rows.

For fits that are too large for one worker. The processes are the ranks of LightGBM's data-parallel
training: they find the same trees, each from the sums of all. A rank that is lost ends the fit of
all others, so a supervisor watches them, ends them all and starts them again.

- ``meeting``     the folder through which ranks and supervisor find each other
- ``rank``        what one rank does, in its process
- ``places``      where ranks run: processes of this machine, or workers of a cluster
- ``supervisor``  starts ranks, watches them, and starts them again if one is lost
"""
