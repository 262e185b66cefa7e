"""Create unique names for nodes that passes add, and for the functions they call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.spi import Graph


def unique_name(graph: Graph, name: str, functions: Iterable[str]) -> str:
    """Return an unused name for a node that calls functions `<name>/<function>`.

    The name is unique among all graphs with the same library, as a session stores kernels by the
    names of their nodes.
    """
    suffix, candidate = 0, name
    functions = tuple(functions)
    while graph.has_node(candidate) or any(
        graph.library.body(f"{candidate}/{function}") is not None
        or f"{candidate}/{function}" in graph.library
        for function in functions
    ):
        suffix += 1
        candidate = f"{name}_{suffix}"
    return candidate
