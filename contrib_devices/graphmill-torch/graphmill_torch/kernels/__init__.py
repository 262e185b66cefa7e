"""PyTorch kernels, one module for each kind of op."""
