"""Checkpoints of training: savers, their nodes, and the files."""
