"""Test kernels, devices and plugins with the tools that graphmill uses for its own tests.

    plugin        pytest fixtures and options (pytest loads them automatically)
    suite         the conformance suites, for `pytest --pyargs graphmill.testing.suite`
    conformance   the same as base classes: devices, allocators, kernels, executors, passes, plugins
    cases         the op cases as data, with TensorFlow's results; `case` reads them
    compare       compare a result with the golden one, within `tolerances`
    runners       run a case: on a kernel, in a session, compiled, in a subprocess
    generators    random graphs, programs and op instances
    oracle        expected results: TensorFlow, and a naive graph evaluator
    differential  compare executors, tiers and passes on random graphs
    fakes         devices, plugins and hosts for tests; fault injection
    timeouts      fail tests that hang or leak threads

Nothing else in graphmill imports this package.
"""

from graphmill.deprecations import install_module_aliases

install_module_aliases()
