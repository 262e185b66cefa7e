"""What a step runs on: kernels, devices, resources, rendezvous, the executor interface."""
