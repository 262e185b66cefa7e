"""Kernels of the family `tensor_array`."""
