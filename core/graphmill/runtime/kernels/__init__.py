"""Kernels and lowerings: how they are declared, chosen, bound to nodes and called."""
