"""`LoopBody`: a functional loop as a cluster of its own, which can begin at any iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from graphmill.dtypes import as_dtype
from graphmill.spi import CallKind, Graph
from graphmill.spi.graphs import FunctionBody, calls_of
from graphmill_plugins.jit.analysis.trip_count import pass_through
from graphmill_plugins.jit.ir.argument_nodes import add_argument, add_result
from graphmill_plugins.jit.ir.handles import RESOURCE
from graphmill_plugins.jit.ir.lowering_choices import followed_functions

if TYPE_CHECKING:
    from graphmill.dtypes import DType
    from graphmill.spi import Node
    from graphmill_plugins.jit.ir.scheduled_body import ScheduledBodies


class LoopBody(NamedTuple):
    """A loop as a cluster.

    Attributes:
        bodies: the cluster. Its arguments are the loop's values at the beginning of any iteration,
            and the maximum number of iterations to run; its results are the values that change.
        results: the positions of these values.
        nodes: all nodes of the functions that the loop calls, directly or not.
    """

    bodies: ScheduledBodies
    results: tuple[int, ...]
    nodes: tuple[Node, ...]


def loop_body(loop: Node, bodies: ScheduledBodies) -> LoopBody:
    """Return a functional loop as a cluster.

    Args:
        loop: the loop; all its inputs are loop variables.
        bodies: the cluster that contains it, directly or in a function.
    """
    types = tuple(edge.src.output_types[edge.src_output] for edge in loop.in_edges)
    results = _changing(loop, bodies, types)
    graph = Graph()
    graph.library = loop.graph.library
    ops = bodies.host.ops  # the names below are those of no node
    args = [add_argument(graph, ops, f"arg:{i}", i, dtype) for i, dtype in enumerate(types)]
    copy = graph.copy_nodes([loop])[loop]
    for index, arg in enumerate(args):
        graph.add_edge(arg, 0, copy, index)
    for index, position in enumerate(results):
        add_result(graph, ops, f"result:{index}", index, (copy, position))
    body = FunctionBody(
        loop.name,
        graph,
        (*types, as_dtype("int32")),
        tuple(types[position].base_dtype for position in results),
        (),
    )
    return LoopBody(bodies.with_main(body), results, _nodes_in(loop, bodies))


def _changing(loop: Node, bodies: ScheduledBodies, types: tuple[DType, ...]) -> tuple[int, ...]:
    """Return the positions of the loop variables that are neither handles nor invariant."""
    (body,) = (one.function for one in calls_of(loop) if one.kind is CallKind.LOOP_BODY)
    invariant = pass_through(bodies.function(body).body)
    return tuple(
        index
        for index, dtype in enumerate(types)
        if index not in invariant and dtype.name != RESOURCE and not dtype.is_ref
    )


def _nodes_in(loop: Node, bodies: ScheduledBodies) -> tuple[Node, ...]:
    nodes: dict[Node, None] = {}
    pending, seen = list(followed_functions(loop)), set()
    while pending:
        attr = pending.pop()
        scheduled = bodies.function(attr)
        if id(scheduled) in seen:
            continue
        seen.add(id(scheduled))
        nodes.update(dict.fromkeys(scheduled.nodes))
        for node in scheduled.nodes:
            pending += followed_functions(node)
    return tuple(nodes)
