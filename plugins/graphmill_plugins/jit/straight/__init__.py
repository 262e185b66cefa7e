"""Straight-line code: Python generated for clusters and loops, which calls kernels."""
