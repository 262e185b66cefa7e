"""Kernels that JAX needs in a form of its own; imported only for devices that accept JAX."""
