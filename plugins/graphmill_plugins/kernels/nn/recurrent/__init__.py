"""Kernels of LSTM and GRU cells, of whole LSTM sequences, and of their gradients."""
