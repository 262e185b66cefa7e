"""Scopes of a graph under construction: names, devices, control dependencies."""
