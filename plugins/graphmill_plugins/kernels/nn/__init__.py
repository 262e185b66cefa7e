"""Kernels of the family `nn`."""
