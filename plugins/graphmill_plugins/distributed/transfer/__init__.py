"""Large tensors between tasks: in shared memory on one host, in pieces between hosts."""
