"""Summary kernels: serialized summaries and event files for TensorBoard."""
