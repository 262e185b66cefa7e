"""Graphs: nodes and edges, construction in Python, conversion from and to messages."""
