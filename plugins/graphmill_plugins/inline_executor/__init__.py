"""SINGLE_THREADED_EXECUTOR: runs nodes in a fixed order in one thread, without control flow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi import hookimpl

if TYPE_CHECKING:
    from graphmill.spi import ExecutorFactory, Registrar


@hookimpl
def graphmill_register_executors(executors: Registrar[ExecutorFactory]) -> None:
    """Register the executor."""
    executors.add(
        "SINGLE_THREADED_EXECUTOR",
        "graphmill_plugins.inline_executor.executor:SingleThreadedExecutorFactory",
    )
