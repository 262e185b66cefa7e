"""Find the tensors of a step that have exactly one value, which can be fetched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from graphmill.graph.algorithms import topological_order
from graphmill.graph.control_flow.frames import analyse_frames, output_frame
from graphmill.graph.node import CONTROL_SLOT
from graphmill.graph.node_roles import (
    is_argument_or_result,
    is_exit,
    is_merge,
    is_next_iteration,
)
from graphmill.ops.definition.effects import effects_of
from graphmill.ops.definition.op_traits import ControlFlow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.graph.control_flow.frames import FramePath
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node

    Conditions = frozenset[tuple[str, int]]
    """The outputs of switches that must be live, each as the predicate's name and the output."""

_MAX_INPUTS: Final = 64
"""The maximum number of input tensors listed for a node without a fetchable value."""
_IN_LOOP = "it has a value for each iteration of a loop"
_IN_BRANCH = "it has a value only if its branch is taken"
_NO_ARRAY = "it is not an array"


class StepTensor(NamedTuple):
    """A tensor of a step that can be fetched.

    Attributes:
        name: such as `dense/MatMul:0`.
        op: the op of its node.
        inputs: the nearest tensors before it that can be fetched, too.
        effects: what its node may do besides computing.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    effects: frozenset[str]


def step_tensors(graph: Graph) -> tuple[list[StepTensor], dict[str, str]]:
    """Return the tensors with one value, in the order of computation, and why others have none.

    Args:
        graph: the graph of a step.

    Raises:
        InvalidArgumentError: the frames of the graph are malformed.
    """
    frames, _ = analyse_frames(graph)
    conditions = _live_conditions(graph, frames)
    tensors: list[StepTensor] = []
    skipped: dict[str, str] = {}
    nearest: dict[tuple[Node, int], tuple[str, ...]] = {}
    for node in topological_order(graph):
        if is_argument_or_result(node):
            continue
        sources = [nearest.get((edge.src, edge.src_output), ()) for edge in node.in_edges]
        inputs = tuple(dict.fromkeys(name for names in sources for name in names))
        for output, dtype in enumerate(node.output_types):
            name = f"{node.name}:{output}"
            nearest[node, output] = (name,)
            if output_frame(node, frames):
                skipped[name] = _IN_LOOP
            elif _of_edge(node, output, conditions):
                skipped[name] = _IN_BRANCH
            elif not dtype.is_numpy_compatible:
                skipped[name] = _NO_ARRAY
            else:
                tensors.append(StepTensor(name, node.op, inputs, effects_of(node.op_def)))
                continue
            nearest[node, output] = inputs[:_MAX_INPUTS]
    return tensors, skipped


def _live_conditions(graph: Graph, frames: Mapping[Node, FramePath]) -> dict[Node, Conditions]:
    """Return for each node which switch outputs must be live for it to have a value."""
    conditions: dict[Node, Conditions] = {}
    for node in topological_order(graph):
        reached = [
            _of_edge(edge.src, edge.src_output, conditions)
            for edge in (*node.in_edges, *node.control_in_edges)
            if edge.src in conditions
        ]
        if is_merge(node):
            conditions[node] = frozenset.intersection(*reached) if reached else frozenset()
        else:
            conditions[node] = frozenset().union(*reached)
        if is_exit(node):
            conditions[node] = _outside(node, conditions[node], graph, frames)
    return conditions


def _of_edge(src: Node, output: int, conditions: Mapping[Node, Conditions]) -> Conditions:
    if is_next_iteration(src):
        return frozenset()
    traits = src.op_def.traits
    if output == CONTROL_SLOT or not traits.may_be_dead:
        return conditions[src]
    if traits.control_flow in (ControlFlow.SWITCH, ControlFlow.SWITCH_N):
        return conditions[src] | {(src.in_edges[1].tensor_name, output)}
    return conditions[src] | ({(src.name, output)} if traits.gives_dead else set())


def _outside(
    node: Node, conditions: Conditions, graph: Graph, frames: Mapping[Node, FramePath]
) -> Conditions:
    """Return the conditions that do not belong to the loop that an `Exit` leaves."""
    left = frames[node]
    return frozenset(
        (name, output)
        for name, output in conditions
        if output_frame(graph.node(name.partition(":")[0]), frames) != left
    )
