"""Kernels of the family `image`."""
