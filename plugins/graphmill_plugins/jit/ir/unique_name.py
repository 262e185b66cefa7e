"""Make unique names for nodes that passes add, and for the functions they call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.spi import Graph


def unique_name(graph: Graph, name: str, functions: Iterable[str]) -> str:
    """Return an unused name for a node that calls functions `<name>/<function>`.

    No other graph with the same library has a node of that name: a session keeps the kernels of
    nodes by their names.
    """
    number, candidate = 0, name
    functions = tuple(functions)
    while graph.has_node(candidate) or any(
        graph.library.body(f"{candidate}/{function}") is not None
        or f"{candidate}/{function}" in graph.library
        for function in functions
    ):
        number += 1
        candidate = f"{name}_{number}"
    return candidate
