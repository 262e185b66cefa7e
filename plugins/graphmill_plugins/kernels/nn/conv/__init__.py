"""Convolution kernels and their gradients on NumPy; the ops and shapes that all backends share."""
