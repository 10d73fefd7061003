"""Scan sequences and images: class vectors of their windows as features.

- ``scanner``  ``MultiGrainedScanner``, the scikit-learn transformer
- ``scan``     fits the forests of a scan, and turns rows into vectors with them
- ``windows``  window sizes and positions, and what the names of columns say about a shape
- ``growing``  the scans of a cascade, inside of its folds
"""

from .scanner import MultiGrainedScanner, make_scanner, scanner_params
from .windows import check_order, check_shape, guess_shape, window_sizes

__all__ = [
    "MultiGrainedScanner",
    "check_order",
    "check_shape",
    "guess_shape",
    "make_scanner",
    "scanner_params",
    "window_sizes",
]
