"""Transfer large tensors between tasks: shared memory on one machine, chunks between machines."""
