"""Kernels of the family `math`."""
