"""The executor MEMORY_BUDGET: kernels wait for memory instead of exceeding a budget."""

from __future__ import annotations

from typing import Any

from graphmill.spi import hookimpl

GRAPHMILL_SPI = ">=1.4,<2"


@hookimpl
def graphmill_register_executors(executors: Any) -> None:
    """Register the executor."""
    executors.add("MEMORY_BUDGET", "graphmill_memorybudget.executor:MemoryBudgetFactory")
