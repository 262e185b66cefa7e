"""Kernels of the family `array`."""
