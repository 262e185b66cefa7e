"""Find the loops of a graph and the conditional branches of its nodes, for gradients.

The analysis only looks at nodes, so it works for graphs that were built here and imported ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.graph.algorithms import is_back_edge
from graphmill.graph.control_flow.frames import analyse_frames, output_frame
from graphmill.graph.node_roles import (
    is_control_trigger,
    is_enter,
    is_exit,
    is_loop_cond,
    is_merge,
    is_next_iteration,
    is_switch,
    without_forwarding,
)

if TYPE_CHECKING:
    from graphmill.dtypes import DType
    from graphmill.graph.builder import Graph
    from graphmill.graph.control_flow.frames import FramePath
    from graphmill.graph.node import Node

    Output = tuple[Node, int]
    Branch = tuple[Output, int]


@dataclass(frozen=True, slots=True, eq=False)
class LoopVariable:
    """The nodes of one loop variable; `exit` is None if nothing outside the loop reads it."""

    enter: Node
    merge: Node
    switch: Node
    following: Node
    exit: Node | None

    @property
    def initial(self) -> Output:
        """The initial value, outside the loop."""
        return self.enter.sources[0]

    @property
    def inside(self) -> Output:
        """The value that the body reads."""
        return (self.switch, 1)

    @property
    def result(self) -> Output:
        """The value that the body computes for the next iteration."""
        return self.following.sources[0]


@dataclass(slots=True, eq=False)
class Loop:
    """A loop of a graph.

    Attributes:
        path: its frame and the enclosing frames.
        loop_cond: its `LoopCond` node.
        variables: its loop variables.
        invariants: its constant `Enter`s.
        dependent: outputs within the loop that depend on the tensors to differentiate by.
    """

    path: FramePath
    loop_cond: Node
    variables: list[LoopVariable]
    invariants: list[Node]
    dependent: set[Output] = field(default_factory=set)

    @property
    def inputs(self) -> list[Output]:
        """The tensors that it reads from outside."""
        enters = [variable.enter for variable in self.variables] + self.invariants
        return [enter.sources[0] for enter in enters]

    @property
    def outputs(self) -> list[Output]:
        """The outputs of its `Exit`s."""
        return [(variable.exit, 0) for variable in self.variables if variable.exit is not None]


class Structure:
    """The loops and branches of a graph before gradients are added."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._loops: dict[FramePath, Loop] = {}
        self._branches: dict[Node, tuple[Branch, ...]] = {}
        self._frames: dict[Node, FramePath] = {}
        self._members: dict[FramePath, list[Node]] = {}
        self._enters: dict[FramePath, list[Node]] = {}
        if any(map(is_enter, graph.nodes)):
            self._frames, infos = analyse_frames(graph)
            self._members = {path: info.nodes for path, info in infos.items()}
            for node in filter(is_enter, self._frames):
                inside = output_frame(node, self._frames)
                self._enters.setdefault(inside, []).append(node)

    @property
    def paths(self) -> list[FramePath]:
        """The frames of all loops, outer ones first."""
        return sorted(self._enters, key=len)

    def members(self, path: FramePath) -> list[Node]:
        """Return the nodes in a frame, without the `Enter`s that lead into it."""
        return self._members[path]

    def enters(self, path: FramePath) -> list[Node]:
        """Return the `Enter`s that lead into a frame."""
        return self._enters[path]

    def frame_of(self, output: Output) -> FramePath:
        """Return the frame in which an output can be used."""
        node = output[0]
        return output_frame(node, self._frames) if node in self._frames else ()

    def loop_of(self, node: Node) -> Loop:
        """Return the loop that an `Exit` belongs to.

        Raises:
            UnimplementedError: the loop does not have the structure that `while_loop` builds.
        """
        return self.loop(self._frames[node])

    def loop(self, path: FramePath) -> Loop:
        """Return the loop of a frame.

        Raises:
            UnimplementedError: the loop does not have the structure that `while_loop` builds.
        """
        if path not in self._loops:
            self._loops[path] = self._read_loop(path)
        return self._loops[path]

    def _read_loop(self, path: FramePath) -> Loop:
        enters = self._enters[path]
        conditions = [node for node in self._members[path] if is_loop_cond(node)]
        if len(conditions) != 1:
            raise UnimplementedError(
                f"frame {'/'.join(path)!r} has {len(conditions)} LoopCond nodes, expected one; "
                "only loops as built by while_loop have a gradient"
            )
        merges = {enter: _merge_of(enter) for enter in enters}
        variables = [
            _loop_variable(enter, merge) for enter, merge in merges.items() if merge is not None
        ]
        invariants = [enter for enter, merge in merges.items() if merge is None]
        return Loop(path, conditions[0], variables, invariants)

    def branches(self, output: Output) -> tuple[Branch, ...]:
        """Return the branches that must be taken for an output to be alive, outermost first.

        Each is a pair of the predicate and 1 for the true branch, 0 for the false branch.
        """
        node, index = output
        enclosing = self._branches_of(node)
        if is_switch(node) and not _is_of_loop(node) and index >= 0:
            return (*enclosing, (without_forwarding(*node.sources[1]), index))
        return enclosing

    def _branches_of(self, node: Node) -> tuple[Branch, ...]:
        pending = [node]
        while pending:
            current = pending[-1]
            if current in self._branches:
                pending.pop()
                continue
            sources = [
                edge
                for edge in (*current.in_edges, *current.control_in_edges)
                if not is_back_edge(edge) and edge.src is not current.graph.source
            ]
            missing = [edge.src for edge in sources if edge.src not in self._branches]
            if missing:
                pending.extend(missing)
                continue
            pending.pop()
            branches = [self.branches((edge.src, edge.src_output)) for edge in sources]
            longest = max(branches, key=len, default=())
            if is_merge(current) and not any(map(is_back_edge, current.in_edges)):
                longest = max((self.branches(i) for i in current.sources), key=len)[:-1]
            self._branches[current] = () if is_control_trigger(current) else longest
        return self._branches[node]


def _is_of_loop(switch: Node) -> bool:
    return is_loop_cond(without_forwarding(*switch.sources[1])[0])


def is_switch_of_loop(node: Node) -> bool:
    """Return whether a node is the `Switch` of a loop variable."""
    return is_switch(node) and _is_of_loop(node)


def is_merge_of_loop(node: Node) -> bool:
    """Return whether a node is the `Merge` of a loop variable."""
    return is_merge(node) and any(is_next_iteration(src) for src, _ in node.sources)


def is_trainable(dtype: DType) -> bool:
    """Return whether gradients flow through tensors of a type."""
    base = dtype.base_dtype
    return base.is_floating or base.is_complex or base.name in ("resource", "variant")


def _merge_of(enter: Node) -> Node | None:
    for edge in enter.out_edges:
        if not edge.is_control and is_merge_of_loop(edge.dst):
            return edge.dst
    return None


def _loop_variable(enter: Node, merge: Node) -> LoopVariable:
    following = next(src for src, _ in merge.sources if is_next_iteration(src))
    switch = next(
        (e.dst for e in merge.out_edges if not e.is_control and is_switch_of_loop(e.dst)), None
    )
    if switch is None:
        raise InvalidArgumentError(
            "the Merge of a loop variable has no Switch as consumer, so the loop has no gradient",
            node=merge.name,
            op_type=merge.op,
        )
    exits = [e.dst for e in switch.out_edges if is_exit(e.dst) and e.src_output == 0]
    return LoopVariable(enter, merge, switch, following, exits[0] if exits else None)
