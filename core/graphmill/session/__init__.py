"""`Session`: the user's way to run a graph, and what stands behind it in one process."""
