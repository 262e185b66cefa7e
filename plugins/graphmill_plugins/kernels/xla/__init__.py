"""Kernels of the family `xla`."""
