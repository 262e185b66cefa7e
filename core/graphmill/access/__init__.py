"""Side effects of kernels: the rules that allow them, and the brokers that enforce the rules."""
