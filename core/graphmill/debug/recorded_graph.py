"""`RecordedGraph`: the nodes of a partition or function, as a recording describes them."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from graphmill.graph.control_flow.frames import analyse_frames, frame_name
from graphmill.graph.functions.function_calls import calls_of
from graphmill.graph.node_roles import (
    is_argument,
    is_enter,
    is_exit,
    is_merge,
    is_next_iteration,
    is_result,
)
from graphmill.ops.definition.effects import effects_of
from graphmill.ops.definition.op_traits import CallKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node

    Numbers = tuple[int, ...]
    """The iteration of each frame around a node, from the outside in."""

PLAIN: Final = "plain"
ENTER: Final = "enter"
CONSTANT_ENTER: Final = "constant enter"
EXIT: Final = "exit"
NEXT_ITERATION: Final = "next iteration"
MERGE: Final = "merge"
ROLES: Final = (PLAIN, ENTER, CONSTANT_ENTER, EXIT, NEXT_ITERATION, MERGE)
RESULT_PREFIX: Final = "fetch "
"""The prefix of the names of a step's results; the name of the fetched tensor follows."""


class RecordedEdge(NamedTuple):
    """An input of a node.

    Attributes:
        node: index of the node that it comes from.
        output: which output; -1 for a control edge.
    """

    node: int
    output: int

    @property
    def is_control(self) -> bool:
        """Whether it carries no value."""
        return self.output < 0


class RecordedNode(NamedTuple):
    """A node of a recorded graph.

    Attributes:
        name: its name; for an argument or result of the step, the tensor that is fed or fetched.
        op: its op.
        role: how its outputs propagate: one of `ROLES`.
        frame: the names of the frames that it runs in, from the outside in.
        child_frame: for an enter, the name of the frame that it leads into.
        inputs: its input edges, then its control edges.
        num_outputs: how many outputs it has.
        has_effects: whether it reads or changes state, or is random, so that a replay must not run
            it again.
        is_argument: whether it stands for a value that the caller of the step or function gave.
        is_result: whether it stores a value that the caller gets.
    """

    name: str
    op: str
    role: str = PLAIN
    frame: tuple[str, ...] = ()
    child_frame: str = ""
    inputs: tuple[RecordedEdge, ...] = ()
    num_outputs: int = 1
    has_effects: bool = False
    is_argument: bool = False
    is_result: bool = False

    def tensor(self, output: int) -> str:
        """Return the name of an output."""
        return self.name if self.is_argument and ":" in self.name else f"{self.name}:{output}"


class RecordedGraph:
    """The nodes of a partition or function.

    Args:
        nodes: the nodes; edges refer to them by index.
        device: the device that runs them.
        constants: the value of each node that is constant and never runs, by the node's index.
    """

    def __init__(
        self, nodes: Sequence[RecordedNode], device: str, constants: dict[int, int]
    ) -> None:
        self.nodes = tuple(nodes)
        self.device = device
        self.constants = constants

    @cached_property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """For each node, the nodes that one of its edges leads to."""
        found: list[dict[int, None]] = [{} for _ in self.nodes]
        for index, node in enumerate(self.nodes):
            for edge in node.inputs:
                found[edge.node][index] = None
        return tuple(map(tuple, found))

    @cached_property
    def index_of(self) -> dict[str, int]:
        """The index of each node by its name."""
        return {node.name: index for index, node in enumerate(self.nodes)}


def recorded_nodes(
    graph: Graph, name_of: Callable[[Node], str]
) -> tuple[list[RecordedNode], dict[Node, int]]:
    """Return the nodes of a graph, and the index of each.

    Args:
        graph: the graph of a run.
        name_of: returns the name under which a node is shown.
    """
    nodes = list(graph.nodes)
    index_of = {node: index for index, node in enumerate(nodes)}
    frames, _ = analyse_frames(graph)
    return [_recorded(node, index_of, frames[node], name_of(node)) for node in nodes], index_of


def _recorded(
    node: Node, index_of: dict[Node, int], frame: tuple[str, ...], name: str
) -> RecordedNode:
    data = [RecordedEdge(index_of[edge.src], edge.src_output) for edge in node.in_edges]
    control = [
        RecordedEdge(index_of[edge.src], -1)
        for edge in node.control_in_edges
        if edge.src in index_of
    ]
    return RecordedNode(
        name,
        node.op,
        _role(node),
        frame,
        frame_name(node) if is_enter(node) else "",
        (*data, *control),
        node.num_outputs,
        has_effects(node),
        is_argument(node),
        is_result(node),
    )


def has_effects(node: Node) -> bool:
    """Return whether running a node again may give another value or change something."""
    if is_argument(node) or is_result(node):
        return False
    if any(called.kind is not CallKind.DEFERRED for called in calls_of(node)):
        return False  # the nodes of its functions have the effects
    if effects_of(node.op_def):
        return True
    return any(  # it reads a variable
        edge.src.output_types[edge.src_output].is_ref and not declared.is_ref
        for edge, declared in zip(node.in_edges, node.input_types, strict=True)
    )


def _role(node: Node) -> str:
    if is_enter(node):
        return CONSTANT_ENTER if node.attrs["is_constant"] else ENTER
    if is_exit(node):
        return EXIT
    if is_next_iteration(node):
        return NEXT_ITERATION
    return MERGE if is_merge(node) else PLAIN


def iteration_text(frame: Sequence[str], numbers: Numbers) -> str:
    """Return frames and iterations as one text, such as `outer:3/inner:0`."""
    return "/".join(f"{name}:{number}" for name, number in zip(frame, numbers, strict=True))


def iteration_numbers(frame: Sequence[str], text: str) -> Numbers:
    """Return the iterations in a text of `iteration_text`, given the names of the frames."""
    numbers = []
    for name in frame:
        number, _, text = text[len(name) + 1 :].partition("/")
        numbers.append(int(number))
    return tuple(numbers)
