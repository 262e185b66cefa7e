"""Kernels of the family `functional`."""
