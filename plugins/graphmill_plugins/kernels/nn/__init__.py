"""Neural-network kernels: activations, losses, convolutions, pooling and more."""
