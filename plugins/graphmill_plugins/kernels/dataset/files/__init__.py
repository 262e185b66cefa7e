"""Kernels of datasets of files: LMDB, SQLite, saved datasets and snapshots."""
