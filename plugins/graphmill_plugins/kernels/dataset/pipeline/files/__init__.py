"""Datasets that read and write files, and the formats of these files."""
