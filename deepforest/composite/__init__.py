"""Provide Random Composite Forests (DeSalvo and Mohri): shallow trees with an SVM in every leaf.

- ``CompositeForestClassifier``  the estimator (``estimator``)
- ``bound``     the bound by which a tree chooses the degrees of its leaves
- ``tree``      the questions of a tree
- ``leaves``    the SVMs in the leaves, and what replaces them where there are too few rows
- ``training``  Algorithm 1, and the choice of C and γ
- ``columns``   columns as complete, scaled numbers
- ``storage``   a fitted forest as arrays and JSON
"""

from __future__ import annotations

from .estimator import CompositeForestClassifier
from .leaves import FALLBACKS, LeafRecord
from .storage import read_held_out, read_leaves
from .training import HeldOutRecord

__all__ = [
    "FALLBACKS",
    "CompositeForestClassifier",
    "HeldOutRecord",
    "LeafRecord",
    "read_held_out",
    "read_leaves",
]
