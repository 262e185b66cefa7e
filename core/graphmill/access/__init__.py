"""Effects that kernels may have besides computing: rules, and the broker that enforces them."""
