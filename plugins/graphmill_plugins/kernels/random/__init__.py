"""Kernels of the family `random`."""
