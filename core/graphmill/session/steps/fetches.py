"""Flatten fetch structures, and rebuild them from the fetched values (clause S6).

Semantics: `_FetchMapper` and `_FetchHandler` in `tensorflow/python/client/session.py`.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidValueError
from graphmill.graph.graph import Graph
from graphmill.graph.node import CONTROL_SLOT, output_name, parse_tensor_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


class FetchPlan:
    """A flattened fetch structure.

    Attributes:
        tensors: names of the tensors to fetch, without duplicates, as `node:output`.
        targets: names of the nodes to run without fetching.
        rebuild: builds the caller's structure from the fetched values, in the order of `tensors`.
    """

    __slots__ = ("rebuild", "targets", "tensors")

    def __init__(self, fetches: Any, graph: Graph | None = None) -> None:
        collector = _Collector(graph)
        try:
            self.rebuild: Callable[[Sequence[Any]], Any] = collector.visit(fetches)
        except RecursionError:
            raise InvalidValueError("the fetches are nested too deeply") from None
        self.tensors = tuple(collector.tensors)
        self.targets = tuple(collector.targets)


class _Collector:
    """Visits a fetch structure; each visit returns a function that rebuilds that part."""

    def __init__(self, graph: Graph | None) -> None:
        self.graph = graph
        self.tensors: dict[str, int] = {}
        self.targets: dict[str, None] = {}

    def visit(self, fetch: Any) -> Callable[[Sequence[Any]], Any]:
        if isinstance(fetch, (list, tuple)):
            return self._visit_sequence(fetch)
        if isinstance(fetch, Mapping):
            return self._visit_mapping(fetch)
        if dataclasses.is_dataclass(fetch) and not isinstance(fetch, type):
            names = [field.name for field in dataclasses.fields(fetch)]
            return self._visit_fields(fetch, names)
        attrs_fields = getattr(type(fetch), "__attrs_attrs__", None)
        if attrs_fields is not None:
            return self._visit_fields(fetch, [field.name for field in attrs_fields])
        return self._visit_leaf(fetch)

    def _visit_sequence(self, fetch: Sequence[Any]) -> Callable[[Sequence[Any]], Any]:
        parts = [self.visit(item) for item in fetch]
        kind: Any = list if isinstance(fetch, list) else type(fetch)
        if hasattr(kind, "_make"):  # a namedtuple
            return lambda values: kind._make(part(values) for part in parts)
        return lambda values: kind([part(values) for part in parts])

    def _visit_mapping(self, fetch: Mapping[Any, Any]) -> Callable[[Sequence[Any]], Any]:
        parts = {key: self.visit(value) for key, value in fetch.items()}
        make: Callable[[], Any] = type(fetch) if isinstance(fetch, dict) else dict
        if isinstance(fetch, defaultdict):
            make = partial(type(fetch), fetch.default_factory)

        def build(values: Sequence[Any]) -> Any:
            built = make()
            for key, part in parts.items():
                built[key] = part(values)
            return built

        return build

    def _visit_fields(self, fetch: Any, names: Sequence[str]) -> Callable[[Sequence[Any]], Any]:
        parts = {name: self.visit(getattr(fetch, name)) for name in names}
        kind = type(fetch)
        return lambda values: kind(**{name: part(values) for name, part in parts.items()})

    def _visit_leaf(self, fetch: Any) -> Callable[[Sequence[Any]], Any]:
        if fetch is None:
            raise InvalidValueError("a fetch is None; leave it out, or name a tensor or operation")
        name = fetch_name(fetch, self.graph)
        if ":" not in name:
            self.targets[name] = None
            return _nothing
        index = self.tensors.setdefault(name, len(self.tensors))
        return lambda values: values[index]


def fetch_name(fetch: Any, graph: Graph | None = None) -> str:
    """Return `node:output` for a tensor, `node` for an operation.

    Raises:
        InvalidValueError: `fetch` is not a tensor, operation or name, or is of another graph.
    """
    if isinstance(fetch, bytes):
        fetch = fetch.decode("utf-8", "replace")
    if isinstance(fetch, str):
        node_name, output = parse_tensor_name(fetch)
        if output == CONTROL_SLOT:
            return node_name
        return f"{node_name}:{output}" if ":" in fetch else node_name
    return _reference(fetch, "fetch", graph)


def feed_name(feed: Any, graph: Graph | None = None) -> str:
    """Return `node:output` for the key of a feed; the name of an operation means its output 0.

    Raises:
        InvalidValueError: it is not a tensor or name, or is of another graph.
    """
    name = feed if isinstance(feed, str) else _reference(feed, "feed", graph)
    return name if ":" in name else f"{name}:0"


def target_name(target: Any, graph: Graph | None = None) -> str:
    """Return the node name of a target: an operation, a tensor, or the name of either.

    Raises:
        InvalidValueError: it is none of these, or is of another graph.
    """
    name = target if isinstance(target, str) else _reference(target, "target", graph)
    return parse_tensor_name(name)[0]


def several(items: Any) -> Iterable[Any]:
    """Return targets or feeds as an iterable: a single one, or None, is converted."""
    if items is None:
        return ()
    return (items,) if isinstance(items, (str, bytes)) or hasattr(items, "name") else items


def _reference(value: Any, role: str, graph: Graph | None) -> str:
    """Return the name of a tensor or operation object, of graphmill or another library."""
    is_output = hasattr(value, "value_index")
    name = output_name(value) if is_output else _other_name(value, role)
    if not isinstance(name, str):
        raise InvalidValueError(
            f"{role} {value!r} ({type(value).__name__}) is not a tensor, operation or name"
        )
    owner = getattr(value, "graph", None)
    if graph is not None and isinstance(owner, Graph) and owner is not graph:
        raise InvalidValueError(f"{role} {value!r} does not belong to the session's graph")
    return name


def _other_name(value: Any, role: str) -> Any:
    """Return the name of what is not a tensor; None if it has none."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if role == "feed" and dataclasses.is_dataclass(value) and hasattr(value, "indices"):
        # The name of an `IndexedSlices` is that of its values alone.
        raise InvalidValueError(f"feed {value!r} is not a tensor; feed its values and indices")
    return getattr(value, "name", None)


def _nothing(values: Sequence[Any]) -> None:
    del values
