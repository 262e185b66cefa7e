"""Kernels of the family `sparse`."""
