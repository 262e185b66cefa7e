"""Kernels of the family `quantized`."""
