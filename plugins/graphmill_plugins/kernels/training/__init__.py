"""Kernels of the family `training`."""
