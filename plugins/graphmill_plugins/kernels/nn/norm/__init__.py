"""Batch normalisation, local response normalisation, BiasAdd, and their gradients."""
