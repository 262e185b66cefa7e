"""The executors DEFAULT, INLINE and STEPPING: a state machine, and drivers that call kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi import hookimpl

if TYPE_CHECKING:
    from graphmill.spi import ExecutorFactory, Registrar


@hookimpl
def graphmill_register_executors(executors: Registrar[ExecutorFactory]) -> None:
    """Register the executors DEFAULT, INLINE and STEPPING."""
    home = "graphmill_plugins.default_executor.executor"
    for name in ("", "DEFAULT"):
        executors.add(name, f"{home}:DefaultExecutorFactory")
    executors.add("INLINE", f"{home}:InlineExecutorFactory")
    stepping = "graphmill_plugins.default_executor.stepping_executor:SteppingExecutorFactory"
    executors.add("STEPPING", stepping)
