"""The parts of the benchmark of servers (see ../cluster.py)."""
