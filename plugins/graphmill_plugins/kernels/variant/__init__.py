"""Kernels of the family `variant`."""
