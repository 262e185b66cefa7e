"""Compilation: clusters, control flow as functions, tiers."""
