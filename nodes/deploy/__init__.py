"""Trained models at work, outside a pipeline.

- ``registry``  the models of a workspace: what each is, where it comes from, how well it did
- ``fitting``   columns of new data made into what a model was trained on
- ``blocks``    files read block by block
- ``scoring``   a whole file scored in bounded memory
- ``rows``      rows of JSON made into a model's matrix
- ``quick``     a model that answers for a few rows without delay
- ``service``   a model behind HTTP
- ``connections``  how long a caller may keep it waiting, and how many there may be
- ``commands``  ``sylva predict`` and ``sylva serve``
"""
