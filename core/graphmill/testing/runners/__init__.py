"""Run op cases: each runner returns the results of a case, or its error.

kernel_runner      call a kernel from the registry directly
jax_runner         the same under JAX
session_runner     run a graph in a session
device_runner      run a graph in a session on one device
tier_runner        run a graph in a session, interpreted or compiled
session_programs   run a program of a client, which `generators` draws, in graphmill or TensorFlow
subprocess_runner  run in a subprocess, which may crash or hang
backends           return the runner of a backend by name
"""
