"""Kernels of the family `control_flow`."""
