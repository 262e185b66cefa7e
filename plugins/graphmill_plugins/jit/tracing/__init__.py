"""Trace function bodies with JAX, with their control flow and data structures."""
