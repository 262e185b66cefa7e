"""Find clusters and replace the nodes of each by one node."""
