"""Placement: devices of nodes, colocation groups, host memory."""
