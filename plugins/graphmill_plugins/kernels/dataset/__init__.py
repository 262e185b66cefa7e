"""Datasets and iterators: pipelines of elements that steps take one at a time."""
