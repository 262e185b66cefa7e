"""Kernels on PyTorch, a module for each kind of op."""
