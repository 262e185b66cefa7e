"""Kernels of the family `lookup`."""
