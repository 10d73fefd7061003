"""Measure figures, most of them as ratios against named peers: ``python -m benchmarks.NAME``.

- ``engine``   the cost of the scheduler, the store and the command line
- ``forest``   the forests against scikit-learn's
- ``cascade``  the cascades: are their scores true, and what do they cost against peers
- ``ui``       the studio in a browser
- ``deploy``   ``sylva predict`` and ``sylva serve``
- ``tsne``     openTSNE against scikit-learn's t-SNE
"""
