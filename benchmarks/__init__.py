"""Figures as ratios against named peers, one command each: ``python -m benchmarks.NAME``.

- ``engine``  what the scheduler, the store and the command line cost
"""
