"""What kernels may do besides computing: rules, and the broker that enforces them."""
