"""Iterators of datasets, optionals, and kernels that take elements within a step."""
