"""Test kernels, devices and plugins as graphmill tests its own.

    cases/          what every op is asked, as data, and what TensorFlow answers
    case            reads the cases
    runner          runs one on a kernel by itself; jax_runner under JAX, session_runner as a graph
    judge           compares what came of it with the stored answer of TensorFlow
    conformance     test classes for devices, allocators, kernels, executors, passes, rendezvous
    suite           the same as tests, for `pytest --pyargs graphmill.testing.suite`
    faults          makes any device fail on purpose
    levels          the report of what was reached
    reference       a naive evaluator of a graph, to hold executors against
    graphs          random small graphs
    plugin          pytest fixtures (loaded by itself through pytest's entry points)

Nothing else in graphmill imports this package.
"""
