"""Kernels of the family `ragged`."""
