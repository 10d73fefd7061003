"""Deep forests as scikit-learn estimators.

- ``metrics``  the measures by name that judge a model and steer the growth of a cascade
"""
