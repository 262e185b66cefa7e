"""Scopes of a graph that is being built: names, devices, control dependencies."""
