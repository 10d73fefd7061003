"""Plots: plain data in, a plotly figure out.

They take what reports, statistics and layer records hold. Backgrounds are transparent and texts keep the theme's
colour, so a figure fits the light and the dark theme; colours can be told apart by the colour-blind, and a dash tells
what a colour no longer can. Names come from users: they are escaped, shortened where they are drawn and whole where
the mouse rests.

- ``roc_curves``, ``precision_recall_curves``, ``overlaid_curves``  curves of classes, curves of models
- ``confusion_matrix``, ``class_scores``      which classes are taken for which; precision, recall and F1
- ``leaderboard``                             models by one measure
- ``probability_histogram``                   what predictions say
- ``histogram``, ``category_counts``          a column; perhaps split by class
- ``growth``, ``importances``                 layers of a deep forest; columns by importance
- ``CONFIG``                                  what ``st.plotly_chart`` is to be given with each
"""

from ui.plots._style import CONFIG
from ui.plots.columns import category_counts, growth, histogram, importances
from ui.plots.judged import (
    class_scores,
    confusion_matrix,
    leaderboard,
    overlaid_curves,
    precision_recall_curves,
    probability_histogram,
    roc_curves,
)

__all__ = [
    "CONFIG",
    "category_counts",
    "class_scores",
    "confusion_matrix",
    "growth",
    "histogram",
    "importances",
    "leaderboard",
    "overlaid_curves",
    "precision_recall_curves",
    "probability_histogram",
    "roc_curves",
]
