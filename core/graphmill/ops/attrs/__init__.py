"""Attr values: their Python forms, checks, inference from inputs, messages."""
