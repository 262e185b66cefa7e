"""Kernels of the family `tensor_list`."""
