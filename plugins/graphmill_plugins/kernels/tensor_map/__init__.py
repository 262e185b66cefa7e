"""Kernels of the family `tensor_map`."""
