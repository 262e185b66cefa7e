"""Batch normalization, local response normalization, BiasAdd, and their gradients."""
