"""Kernels of the family `parsing`."""
