"""Helpers of functions that add several nodes: name scopes, and shapes as inputs."""

from __future__ import annotations

import functools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

from graphmill.graph.infer_graph import infer_graph

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from graphmill.graph.builder import Graph

P = ParamSpec("P")
R = TypeVar("R")


def argument_aliases(**names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Accept arguments of the decorated function by a second name, which TensorFlow has, too.

    Args:
        names: the name of each argument, by the second one.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for alias in names.keys() & kwargs.keys():
                kwargs.setdefault(names[alias], kwargs[alias])
                if kwargs[names[alias]] is not kwargs.pop(alias):
                    raise TypeError(
                        f"{function.__qualname__}() got both {names[alias]!r} and {alias!r}, "
                        "which are the same argument"
                    )
            return function(*args, **kwargs)

        call.argument_aliases = names  # type: ignore[attr-defined]
        return call

    return decorate


@contextmanager
def scope(name: str | None, default: str, *values: Any) -> Iterator[tuple[Graph, str]]:
    """Add the nodes of a `with` block under a name, to the graph of the values.

    Args:
        name: the name, or None.
        default: the name if `name` is None.
        values: tensors, which determine the graph, and other values; without a tensor it is the
            default graph.

    Yields:
        The graph, and the name of the node that is the result, `name/`.
    """
    graph = infer_graph(*values)
    with graph.as_default(), graph.name_scope(name or default) as prefix:
        yield graph, prefix


def shape_input(shape: Any) -> Any:
    """Return a shape, or axes, as an input of an op: an empty list as a vector of integers."""
    return np.zeros(0, np.int32) if isinstance(shape, (list, tuple)) and not shape else shape
