"""Clusters: their definition, the servers of their tasks. Protocols come in as plugins."""
