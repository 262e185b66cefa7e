"""Test kernels, devices and plugins as graphmill tests its own.

    cases/          what every op is asked, as data, and what TensorFlow answers
    case            reads the cases
    runner          runs one on a backend or in a session
    compare         says how two results differ
    reference       a naive evaluator of a graph, to hold executors against
    graphs          random small graphs
    plugin          pytest fixtures (loaded by itself through pytest's entry points)

Nothing else in graphmill imports this package.
"""
