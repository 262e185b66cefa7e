"""Fetch structures: what a caller asks for, flat, and the way back to his structure (row S6).

Semantics: `_FetchMapper` and `_FetchHandler` in `tensorflow/python/client/session.py`.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError
from graphmill.graph.node import CONTROL_SLOT, Node, parse_tensor_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class FetchPlan:
    """A fetch structure, taken apart.

    Attributes:
        tensors: names of the tensors to fetch, each once, as `node:output`.
        targets: names of the nodes that are only to be run.
        rebuild: from the fetched values, in the order of `tensors`, to the caller's structure.
    """

    __slots__ = ("rebuild", "targets", "tensors")

    def __init__(self, fetches: Any) -> None:
        collector = _Collector()
        self.rebuild: Callable[[Sequence[Any]], Any] = collector.visit(fetches)
        self.tensors = tuple(collector.tensors)
        self.targets = tuple(collector.targets)


class _Collector:
    """Visits a fetch structure; each visit returns how to build that part from the values."""

    def __init__(self) -> None:
        self.tensors: dict[str, int] = {}
        self.targets: dict[str, None] = {}

    def visit(self, fetch: Any) -> Callable[[Sequence[Any]], Any]:
        if isinstance(fetch, (list, tuple)):
            return self._visit_sequence(fetch)
        if isinstance(fetch, dict):
            parts = {key: self.visit(value) for key, value in fetch.items()}
            kind = type(fetch)
            return lambda values: kind((key, part(values)) for key, part in parts.items())
        if dataclasses.is_dataclass(fetch) and not isinstance(fetch, type):
            names = [field.name for field in dataclasses.fields(fetch)]
            return self._visit_fields(fetch, names)
        attrs_fields = getattr(type(fetch), "__attrs_attrs__", None)
        if attrs_fields is not None:
            return self._visit_fields(fetch, [field.name for field in attrs_fields])
        return self._visit_leaf(fetch)

    def _visit_sequence(self, fetch: Sequence[Any]) -> Callable[[Sequence[Any]], Any]:
        parts = [self.visit(item) for item in fetch]
        kind = type(fetch)
        if hasattr(kind, "_make"):  # a namedtuple
            return lambda values: kind._make(part(values) for part in parts)
        return lambda values: kind([part(values) for part in parts])  # type: ignore[call-arg]

    def _visit_fields(self, fetch: Any, names: Sequence[str]) -> Callable[[Sequence[Any]], Any]:
        parts = {name: self.visit(getattr(fetch, name)) for name in names}
        kind = type(fetch)
        return lambda values: kind(**{name: part(values) for name, part in parts.items()})

    def _visit_leaf(self, fetch: Any) -> Callable[[Sequence[Any]], Any]:
        if fetch is None:
            raise InvalidArgumentError(
                "a fetch is None; leave it out, or name a tensor or operation"
            )
        name = fetch_name(fetch)
        if ":" not in name:
            self.targets[name] = None
            return _nothing
        index = self.tensors.setdefault(name, len(self.tensors))
        return lambda values: values[index]


def fetch_name(fetch: Any) -> str:
    """Return `node:output` for a tensor, `node` for an operation.

    Raises:
        InvalidArgumentError: `fetch` is no tensor, operation or name.
    """
    if isinstance(fetch, bytes):
        fetch = fetch.decode("utf-8", "replace")
    if isinstance(fetch, str):
        node_name, output = parse_tensor_name(fetch)
        if output == CONTROL_SLOT:
            return node_name
        return f"{node_name}:{output}" if ":" in fetch else node_name
    if isinstance(fetch, Node):
        return fetch.name
    return tensor_reference(fetch, "fetch")


def tensor_reference(value: Any, what: str) -> str:
    """Return `node:output` for a tensor object of ours or of another library.

    Raises:
        InvalidArgumentError: it has no name that is a tensor's.
    """
    name = getattr(value, "name", None)
    if not isinstance(name, str):
        raise InvalidArgumentError(
            f"{what} {value!r} ({type(value).__name__}) is no tensor, operation or name"
        )
    return name


def feed_name(feed: Any) -> str:
    """Return `node:output` for what a feed names; an operation's name stands for its output 0.

    Raises:
        InvalidArgumentError: it is no tensor or name.
    """
    if isinstance(feed, str):
        return feed if ":" in feed else f"{feed}:0"
    name = f"{feed.name}:0" if isinstance(feed, Node) else tensor_reference(feed, "feed")
    return name if ":" in name else f"{name}:0"


def target_name(target: Any) -> str:
    """Return the node name of a target: an operation, a tensor, or the name of either.

    Raises:
        InvalidArgumentError: it is none of these.
    """
    name = target if isinstance(target, str) else tensor_reference(target, "target")
    return parse_tensor_name(name)[0]


def _nothing(values: Sequence[Any]) -> None:
    del values
