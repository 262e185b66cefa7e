"""Partitioning: a graph for each device, joined by sends and receives, and its executors."""
