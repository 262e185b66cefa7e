"""Functions of a graph: definitions, instantiated bodies, calls and their shapes."""
