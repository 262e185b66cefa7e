"""Summaries: what a training run reports, as protos and in event files."""
