"""Make the runner of a backend over a host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from graphmill.testing.jax_runner import JaxRunner
from graphmill.testing.jit_check import jit_config
from graphmill.testing.runner import KernelRunner
from graphmill.testing.session_runner import SessionRunner

if TYPE_CHECKING:
    from graphmill.plugin.host import Host
    from graphmill.testing.answers import Answer
    from graphmill.testing.case import Case


class Runner(Protocol):
    """Answer cases."""

    def run(self, case: Case) -> Answer:
        """Answer a case; `NotApplicableError` if this runner has no say on it."""
        ...


def runner(backend: str, host: Host | None = None) -> Runner:
    """Make the runner of a backend: "numpy", "jax", "session", or "jit" for compiled sessions.

    Args:
        backend: how cases are run.
        host: whose ops and kernels are asked; None for the default host.
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
