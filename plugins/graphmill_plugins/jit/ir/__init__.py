"""The compiler's representations of nodes, function bodies, inputs and handles."""
