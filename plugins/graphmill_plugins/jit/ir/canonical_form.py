"""Canonical forms: clusters with equal forms are compiled to equal programs.

A form lists the nodes of a cluster and its functions in the order in which they are computed: op,
attrs, kernel, inputs. Names of nodes and functions are not in it, except of nodes whose kernel is
made for them, nor are the values of large constants, which are arguments of programs. Clusters
whose nodes come in another order have different forms, so some equal clusters are not found, but
clusters with equal forms always are equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import OpError
from graphmill.spi import CallKind, FuncAttr, Source
from graphmill.spi.graphs import calls_of
from graphmill_plugins.jit.ir.lowering_choices import LoweringChoice, followed_functions

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator

    from graphmill.spi import Node
    from graphmill_plugins.jit.ir.scheduled_body import ScheduledBodies, ScheduledBody


def canonical_form(
    bodies: ScheduledBodies, large: Collection[Node], handles: Collection[Node]
) -> Hashable:
    """Return the canonical form of a cluster; None if it has none.

    It has none if an attr cannot be compared, or a function is missing or calls itself.

    Args:
        bodies: the cluster.
        large: the constants whose values are arguments of the program.
        handles: the nodes that name or keep a variable, in the order of the cluster's inputs.
    """
    try:
        form = _Forms(bodies, large, handles).of(bodies.main)
        hash(form)
    except (TypeError, OpError):  # an attr is not hashable; a function is missing
        return None
    return form


def loop_bodies(bodies: ScheduledBodies) -> tuple[str, ...]:
    """Return the functions that are bodies of the loops of a cluster, in the order of its form.

    Those of clusters with equal forms correspond, whatever their names are.
    """
    return tuple(_loop_bodies(bodies, bodies.main, ()))


def _loop_bodies(
    bodies: ScheduledBodies, scheduled: ScheduledBody, callers: tuple[ScheduledBody, ...]
) -> Iterator[str]:
    for node in scheduled.nodes:
        kinds = {called.function.name: called.kind for called in calls_of(node)}
        for function in followed_functions(node):
            if kinds[function.name] is CallKind.LOOP_BODY:
                yield function.name
            inner = bodies.function(function)
            if inner not in callers:
                yield from _loop_bodies(bodies, inner, (*callers, inner))


class _Forms:
    """Computes the forms of one cluster's bodies."""

    def __init__(
        self, bodies: ScheduledBodies, large: Collection[Node], handles: Collection[Node]
    ) -> None:
        self._bodies = bodies
        self._large = frozenset(large)
        self._handles = {node: index for index, node in enumerate(handles)}
        self._functions: dict[int, Hashable] = {}

    def of(self, scheduled: ScheduledBody) -> Hashable:
        """Return the form of a body; None if it has none."""
        self._functions[id(scheduled)] = None  # for a function that calls itself
        positions: dict[Node, int] = {}
        for index, arg in enumerate(scheduled.args):
            if arg is not None:
                positions[arg] = ~index
        nodes = []
        for index, node in enumerate(scheduled.nodes):
            positions[node] = index
            inputs = tuple([(positions[edge.src], edge.src_output) for edge in node.in_edges])
            form = self._node(node)
            if form is None:
                return None
            nodes.append((*form, inputs))
        results = tuple([(positions[node], output) for node, output in scheduled.results])
        form = scheduled.arg_types, len(positions), tuple(nodes), results
        self._functions[id(scheduled)] = form
        return form

    def _node(self, node: Node) -> tuple[Hashable, ...] | None:
        """Return the form of a node without its inputs; None if it has none."""
        handle = self._handles.get(node)
        if handle is not None and node.op_def.traits.source is Source.VARIABLE:
            return node.op, node.output_types[0], handle
        if node in self._large:
            value = node.attrs["value"]
            return node.op, value.dtype, value.shape
        functions = {(one.name, hash(one)) for one in followed_functions(node)}
        attrs = []
        # Attrs that the op does not declare are only notes, but for one that selects the kernel.
        for name in [one.name for one in node.op_def.attrs if one.name in node.attrs]:
            value = self._attr(node, node.attrs[name], functions)
            if value is None:
                return None
            attrs.append(value)
        choice = self._bodies.choices.of(node, refuses=False)
        if not isinstance(choice, LoweringChoice):
            return node.op, handle, tuple(attrs)
        name = node.name if choice.is_of_node else ""
        kernel = None if choice.kernel is None else choice.kernel.definition
        return node.op, handle, tuple(attrs), name, kernel, choice.lowering

    def _attr(self, node: Node, value: Any, functions: Collection[tuple[str, int]]) -> Any:
        """Return the form of an attr's value in a tuple; None if it has none."""
        if isinstance(value, FuncAttr):
            if (value.name, hash(value)) not in functions:
                return None  # what the node does with it is not known
            scheduled = self._bodies.function(value)
            key = id(scheduled)
            form = self._functions[key] if key in self._functions else self.of(scheduled)
            # Branches of a former v1 conditional have its name.
            return None if form is None else (value.name.startswith(f"{node.name}/"), form)
        if isinstance(value, (list, tuple)):
            parts = [self._attr(node, one, functions) for one in value]
            return None if None in parts else tuple(parts)
        if isinstance(value, float):
            return (value.hex(),)  # distinguishes 0.0 from -0.0
        return (value,)
