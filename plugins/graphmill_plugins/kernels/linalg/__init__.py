"""Kernels of the family `linalg`."""
