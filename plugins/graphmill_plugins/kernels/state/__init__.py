"""Kernels of the family `state`."""
