"""Functions: running graph passes on their bodies, and running the functions."""
