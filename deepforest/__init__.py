"""Deep forests as scikit-learn estimators.

- ``forest``   random, extra and completely-random forests on binned features: ``HistForestClassifier``, ``…Regressor``
- ``margins``  margins, and the exact layer weights of mdDF
- ``metrics``  the measures by name that judge a model and steer the growth of a cascade
"""
