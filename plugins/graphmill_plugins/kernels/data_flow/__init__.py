"""Kernels of the family `data_flow`."""
