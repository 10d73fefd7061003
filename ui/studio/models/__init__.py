"""The Models page: the models that pipelines have saved, and how to use them."""
