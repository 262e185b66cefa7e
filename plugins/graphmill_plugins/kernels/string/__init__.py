"""Kernels of the family `string`."""
