"""Static shapes and values of a graph's tensors."""
