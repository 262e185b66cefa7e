"""Kernels of the family `audio`."""
