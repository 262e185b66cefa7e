"""Graphs: nodes and edges, building them in Python, reading and writing them as messages."""
