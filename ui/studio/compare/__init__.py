"""Compare: runs and models side by side.

- ``board``    evaluations as lines: ranked, named, told apart by the data they judged
- ``reading``  the evaluations of many runs, each read once
- ``changes``  what differs between the pipelines of runs
- ``page``     all of it on screen
"""
