"""Partitioning: split a graph by device, join the parts by transfers, build their executors."""
