"""Trained models: encoding, training, saving, the registry of a workspace and scoring."""
