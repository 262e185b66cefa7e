"""The DEFAULT and INLINE executors: a pure state machine, and a driver that calls kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi import hookimpl

if TYPE_CHECKING:
    from graphmill.spi import ExecutorFactory, Registrar


@hookimpl
def graphmill_register_executors(executors: Registrar[ExecutorFactory]) -> None:
    """Register the executors DEFAULT and INLINE."""
    home = "graphmill_plugins.default_executor.executor"
    for name in ("", "DEFAULT"):
        executors.add(name, f"{home}:DefaultExecutorFactory")
    executors.add("INLINE", f"{home}:InlineExecutorFactory")
