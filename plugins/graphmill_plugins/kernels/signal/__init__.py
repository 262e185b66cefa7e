"""Kernels of the family `signal`."""
