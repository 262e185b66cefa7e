"""Saved things: checkpoints and SavedModels, read and written as TensorFlow does."""
