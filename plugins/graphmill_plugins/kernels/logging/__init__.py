"""Kernels of the family `logging`."""
