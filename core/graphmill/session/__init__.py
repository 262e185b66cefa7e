"""`Session`, with which users run graphs, and its implementation for one process."""
