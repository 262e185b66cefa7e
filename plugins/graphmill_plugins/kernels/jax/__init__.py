"""Kernels with a separate implementation for JAX; imported only for devices that accept JAX."""
