"""Kernels of the family `distributed`."""
