"""Attr values: Python representation, checks, inference from inputs, messages."""
