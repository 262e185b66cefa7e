"""Clusters: their definition, and the servers of their tasks. Protocols are plugins."""
