"""Kernels of the family `io`."""
