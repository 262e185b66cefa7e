"""Describe a program: the nodes of a graph, and the calls of a client on its sessions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.testing.case_graph import GraphMaker
from graphmill.testing.case_inputs import parse_input
from graphmill.testing.case_nodes import parse_function, parse_node

if TYPE_CHECKING:
    from graphmill.ops.definition.op_registry import OpRegistry
    from graphmill.testing.generators.session_programs.resource import Resource

STRUCTURES: Final = ("list", "tuple", "dict", "nested", "single")
"""The structures in which tensors are fetched."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value to feed: nested lists of Python values, and the name of a dtype."""

    dtype: str
    items: Any

    def array(self) -> Any:
        """Return the value as an array; strings are bytes in an object array."""
        dtype: Any = object if self.dtype == "string" else self.dtype
        return np.array(self.items, dtype)


@dataclass(frozen=True, slots=True)
class Handle:
    """A value to feed: the session handle that the step with this label fetched earlier."""

    label: str


@dataclass(frozen=True, slots=True)
class Step:
    """The fetches, targets and feeds of one resource, and the event for its model.

    Attributes:
        resource: the name of the resource.
        event: what happens to the resource, for its model.
        fetches: names of tensors.
        targets: names of operations.
        feeds: names of tensors with their values.
        label: the name under which a fetched session handle is kept; empty for none.
    """

    resource: str
    event: tuple[Any, ...]
    fetches: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    feeds: tuple[tuple[str, Value | Handle], ...] = ()
    label: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """A call of `Session.run` with some steps; if one waits, the call times out.

    Attributes:
        steps: the steps, of different resources.
        session: the number of the session.
        structure: how the tensors are fetched; "single" for the first one alone.
        way: "run", "callable" (`make_callable`) or "options" (`make_callable_from_options`).
    """

    steps: tuple[Step, ...]
    session: int = 0
    structure: str = "list"
    way: str = "run"


@dataclass(frozen=True, slots=True)
class Pending:
    """A step in another thread, which waits until the main thread runs the second step."""

    waiting: Step
    release: Step
    session: int = 0


@dataclass(frozen=True, slots=True)
class Wrong:
    """A call of `Session.run` with wrong names or values, which raises an error."""

    fetches: Any
    feeds: tuple[tuple[str, Any], ...] = ()
    session: int = 0
    way: str = "run"


@dataclass(frozen=True, slots=True)
class SetUp:
    """A call of `Session.partial_run_setup`, whose handle is stored under the label."""

    label: str
    fetches: tuple[str, ...]
    feeds: tuple[str, ...]
    session: int = 0


@dataclass(frozen=True, slots=True)
class Part:
    """A call of `Session.partial_run` with the handle of the label."""

    label: str
    fetches: tuple[str, ...]
    feeds: tuple[tuple[str, Value], ...] = ()
    session: int = 0


@dataclass(frozen=True, slots=True)
class Close:
    """A call of `Session.close`."""

    session: int = 0


Call = Run | Pending | Wrong | SetUp | Part | Close


@dataclass(frozen=True, slots=True)
class Program:
    """A graph and calls; `name` is the call of `session_program` that draws it."""

    name: str
    resources: tuple[Resource, ...]
    calls: tuple[Call, ...] = field(default=())

    def graph_def(self, ops: OpRegistry) -> Any:
        """Return the graph."""
        maker = GraphMaker(ops)
        for resource in self.resources:
            for text in resource.functions():
                maker.function(parse_function(text))
            for name, dtype in resource.placeholders().items():
                maker.placeholder(name, parse_input(f"{dtype}[0]", {}, name))
            for text in resource.nodes():
                maker.node(parse_node(text))
        return maker.graph_def

    def text(self) -> str:
        """Return the program in readable form: its nodes, then its calls."""
        lines = [self.name]
        for resource in self.resources:
            lines += [f"  {name}: {dtype}" for name, dtype in resource.placeholders().items()]
            lines += [f"  {text}" for text in (*resource.functions(), *resource.nodes())]
        return "\n".join([*lines, *(f"  {number}. {c}" for number, c in enumerate(self.calls))])
