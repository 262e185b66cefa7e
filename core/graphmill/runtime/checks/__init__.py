"""Checks of kernels while they run: `GRAPHMILL_VALIDATE=1`."""
