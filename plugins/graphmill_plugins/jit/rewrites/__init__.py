"""Passes that change a graph before and after its clusters are found."""
