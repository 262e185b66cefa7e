"""Reports of a step: its costs, its trace, and the holders of memory."""
