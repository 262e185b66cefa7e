"""Create the runner of a backend: numpy, jax, session or jit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from graphmill.testing.differential.compiled_graphs import jit_config
from graphmill.testing.runners.jax_runner import JaxRunner
from graphmill.testing.runners.kernel_runner import KernelRunner
from graphmill.testing.runners.session_runner import SessionRunner

if TYPE_CHECKING:
    from graphmill.plugin.host import Host
    from graphmill.testing.case import Case
    from graphmill.testing.golden import CaseResult


class Runner(Protocol):
    """Runs cases."""

    def run(self, case: Case) -> CaseResult:
        """Run a case; raise `NotApplicableError` if this runner does not support it."""
        ...


def runner(backend: str, host: Host | None = None) -> Runner:
    """Create the runner of a backend: "numpy", "jax", "session", or "jit" for compiled sessions.

    Args:
        backend: how cases are run.
        host: supplies ops and kernels; None for the default host.
    """
    if host is None:
        from graphmill.plugin.host import default_host

        host = default_host()
    if backend == "session":
        return SessionRunner(host)
    if backend == "jit":
        return SessionRunner(host, config=jit_config("eager"))
    make = JaxRunner if backend == "jax" else KernelRunner
    return make(host.ops, host.kernels)
