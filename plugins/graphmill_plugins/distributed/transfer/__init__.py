"""Transfer large tensors between tasks: shared memory on one host, chunks between hosts."""
