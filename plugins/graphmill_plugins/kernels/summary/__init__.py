"""Summary kernels: serialised summaries and event files for TensorBoard."""
