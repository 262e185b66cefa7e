"""The runtime below sessions: kernels, devices, resources, rendezvous, the executor interface."""
