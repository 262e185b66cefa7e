"""Placement: choose devices of nodes, colocation groups and memory types."""
