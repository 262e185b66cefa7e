"""DEFAULT and INLINE: a pure state machine (`propagator`) and a thin shell (`executor_state`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi import hookimpl

if TYPE_CHECKING:
    from graphmill.spi import ExecutorFactory, Registrar


@hookimpl
def graphmill_register_executors(executors: Registrar[ExecutorFactory]) -> None:
    """Register the executor under both of its names, and the one without threads."""
    home = "graphmill_plugins.default_executor.executor"
    for name in ("", "DEFAULT"):
        executors.add(name, f"{home}:DefaultExecutorFactory")
    executors.add("INLINE", f"{home}:InlineExecutorFactory")
