"""Make plotly figures from plain data.

The functions take what reports, statistics and layer records hold. Backgrounds are transparent and
texts have the theme's colour, so that a figure fits the light and the dark theme. Colour-blind
people can distinguish the colours; when colours repeat, dashes distinguish the lines. Names come
from users: they are escaped, shortened in the plot, and complete in the hover text.

- ``roc_curves``, ``precision_recall_curves``, ``overlaid_curves``  curves of classes or models
- ``confusion_matrix``, ``class_scores``  actual and predicted classes; precision, recall and F1
- ``leaderboard``, ``recall_at_rates``    models by one measure, by the recall at several rates
- ``figure_by_threshold``, ``gain_curve``, ``lift_curve``, ``add_mark``  what a threshold does
- ``reliability``                         whether probabilities mean what they say
- ``probability_histogram``               rows by their predicted probabilities
- ``histogram``, ``category_counts``      the values of a column, split by class if wanted
- ``importances``                         columns by importance
- ``contributions``, ``permutation_importances``  columns of one prediction; shuffled columns
- ``growth``, ``margin_growth``, ``ratio_and_score``, ``margin_distribution``  how it grew
- ``learner_quality``, ``agreement``, ``importances_by_layer``  the learners inside its layers
- ``window_map``                          windows of an image that know its class
- ``class_vectors``, ``row_margin``       one row, layer by layer
- ``screening``                           rows that leave early
- ``degree_histogram``, ``bound_and_error``  the leaves of a composite forest
- ``share_axes``                          gives figures the same vertical axis
- ``for_dark``                            adapts texts inside cells to the dark theme
- ``CONFIG``                              the configuration for ``st.plotly_chart``
"""

from ui.studio.plots.columns import category_counts, histogram, importances
from ui.studio.plots.composite import bound_and_error, degree_histogram
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
from ui.studio.plots.explanations import (
    Contribution,
    contributions,
    decimals_for,
    permutation_importances,
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
    share_axes,
    window_map,
)
from ui.studio.plots.style import CONFIG, for_dark
from ui.studio.plots.thresholds import (
    INTERRUPTED,
    MONEY,
    PERCENT,
    THRESHOLD,
    Axis,
    add_mark,
    figure_by_threshold,
    gain_curve,
    lift_curve,
    reliability,
)

__all__ = [
    "CONFIG",
    "INTERRUPTED",
    "MONEY",
    "PERCENT",
    "THRESHOLD",
    "Axis",
    "Contribution",
    "add_mark",
    "agreement",
    "bound_and_error",
    "category_counts",
    "class_scores",
    "class_vectors",
    "confusion_matrix",
    "contributions",
    "decimals_for",
    "degree_histogram",
    "figure_by_threshold",
    "for_dark",
    "gain_curve",
    "growth",
    "histogram",
    "importances",
    "importances_by_layer",
    "leaderboard",
    "learner_quality",
    "lift_curve",
    "margin_distribution",
    "margin_growth",
    "overlaid_curves",
    "permutation_importances",
    "precision_recall_curves",
    "probability_histogram",
    "ratio_and_score",
    "recall_at_rates",
    "reliability",
    "roc_curves",
    "row_margin",
    "screening",
    "share_axes",
    "window_map",
]
