"""Run op cases: each runner returns the results of a case, or its error.

kernel_runner      a kernel by itself, taken from the registry
jax_runner         the same under JAX
session_runner     a graph in a session
device_runner      a graph in a session on one device
tier_runner        a graph in a session, interpreted or compiled
subprocess_runner  in a process of its own, which may crash or hang
backends           find the runner of a backend by its name
"""
