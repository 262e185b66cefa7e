"""Passes that rewrite a graph before its clusters are formed."""
