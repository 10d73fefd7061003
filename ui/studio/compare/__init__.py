"""Compare: runs and models side by side.

- ``leaderboard``  evaluations as lines: read, ranked, named, grouped by the rows they evaluated
- ``page``         all of it on screen
"""
