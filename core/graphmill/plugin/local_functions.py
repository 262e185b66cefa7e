"""Functions of this process that graphs call by `PyFunc`, such as Python generators of datasets.

A graph refers to a function by a token. Unlike the names of published functions, tokens are random
and mean nothing in other processes: a graph from a file cannot guess one. A function is kept as
long as one of the graphs that call it.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary, WeakValueDictionary

from graphmill.errors import NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable

PREFIX: Final = "local:"
"""The beginning of a token; no entry point has such a name."""


class LocalFunction:
    """A function that graphs of this process can call.

    Attributes:
        token: how graphs refer to it.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        """Make a token for a function; `name` is for messages."""
        self.function = function
        self.token = f"{PREFIX}{name}#{secrets.token_hex(8)}"
        _BY_TOKEN[self.token] = self

    def keep_for(self, graph: object) -> None:
        """Keep the function at least as long as a graph exists."""
        _OF_GRAPHS.setdefault(graph, set()).add(self)


_BY_TOKEN: WeakValueDictionary[str, LocalFunction] = WeakValueDictionary()
_OF_GRAPHS: WeakKeyDictionary[object, set[LocalFunction]] = WeakKeyDictionary()


def functions_kept_for(graph: object) -> frozenset[LocalFunction]:
    """Return the functions that a graph keeps."""
    return frozenset(_OF_GRAPHS.get(graph, ()))


def local_function(token: str) -> Callable[..., Any]:
    """Return the function of a token.

    Raises:
        NotFoundError: this process has no such function, or the graphs that called it are gone.
    """
    found = _BY_TOKEN.get(token)
    if found is None:
        name = token.removeprefix(PREFIX).partition("#")[0]
        raise NotFoundError(
            f"the Python function {name!r} exists only in the process that built the graph, as "
            "long as it keeps the graph: build the dataset again, or write its elements to a file"
        )
    return found.function
