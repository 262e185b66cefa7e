"""Arguments of op functions, and the default graph to which they add nodes."""
