"""Checkpoints and SavedModels, in TensorFlow's formats."""
