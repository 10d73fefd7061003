"""Plots: plain data in, a plotly figure out.

They take what reports, statistics and layer records hold. Backgrounds are transparent and texts keep the theme's
colour, so a figure fits the light and the dark theme; colours can be told apart by the colour-blind, and a dash tells
what a colour no longer can. Names come from users: they are escaped, shortened where they are drawn and whole where
the mouse rests.

- ``roc_curves``, ``precision_recall_curves``, ``overlaid_curves``  curves of classes, curves of models
- ``confusion_matrix``, ``class_scores``      which classes are taken for which; precision, recall and F1
- ``leaderboard``, ``recall_at_rates``        models by one measure, by the recall at several rates
- ``probability_histogram``                   what predictions say
- ``histogram``, ``category_counts``          a column; perhaps split by class
- ``importances``                             columns by importance
- ``growth``, ``margin_growth``, ``ratio_and_score``, ``margin_distribution``  how a deep forest grew, layer by layer
- ``learner_quality``, ``agreement``, ``importances_by_layer``  the learners inside its layers
- ``class_vectors``, ``row_margin``           one row on its way through the layers
- ``screening``                               rows that leave early
- ``for_dark``                                what a figure with texts in its cells needs in the dark theme
- ``CONFIG``                                  what ``st.plotly_chart`` is to be given with each
"""

from ui.studio.plots.columns import category_counts, histogram, importances
from ui.studio.plots.evaluation import (
    class_scores,
    confusion_matrix,
    leaderboard,
    overlaid_curves,
    precision_recall_curves,
    probability_histogram,
    recall_at_rates,
    roc_curves,
)
from ui.studio.plots.layers import (
    agreement,
    class_vectors,
    growth,
    importances_by_layer,
    learner_quality,
    margin_distribution,
    margin_growth,
    ratio_and_score,
    row_margin,
    screening,
)
from ui.studio.plots.style import CONFIG, for_dark

__all__ = [
    "CONFIG",
    "agreement",
    "category_counts",
    "class_scores",
    "class_vectors",
    "confusion_matrix",
    "for_dark",
    "growth",
    "histogram",
    "importances",
    "importances_by_layer",
    "leaderboard",
    "learner_quality",
    "margin_distribution",
    "margin_growth",
    "overlaid_curves",
    "precision_recall_curves",
    "probability_histogram",
    "ratio_and_score",
    "recall_at_rates",
    "roc_curves",
    "row_margin",
    "screening",
]
