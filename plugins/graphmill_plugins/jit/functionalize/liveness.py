"""Analyse liveness: which branch of a conditional or part of a loop each node runs in.

A `Branch` is a set of nodes that are alive or dead together: a frame, or one side of a conditional
in another branch. A node is in the innermost branch of its inputs; if their branches are not
nested, the node's branch is unknown. A `Merge` of both sides of a conditional is in the enclosing
branch.

Semantics: the dead tokens of `tensorflow/core/common_runtime/propagator_state.cc`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, TypeAlias

from graphmill.spi.graphs import (
    NEVER_DEAD_ATTR,
    FramePath,
    analyse_frames,
    is_back_edge,
    is_control_trigger,
    is_enter,
    is_exit,
    is_merge,
    is_receive,
    is_switch,
    output_frame,
)
from graphmill.spi.passes import effects_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from graphmill.spi import Edge, Graph, Node

Tensor: TypeAlias = "tuple[Node, int]"


def has_active_op(node: Node) -> bool:
    """Return whether the op of a node has effects besides computing its outputs."""
    return node.op_def.is_stateful or bool(effects_of(node.op_def))


class Branch:
    """A set of nodes whose values are alive or dead together.

    Attributes:
        parent: the enclosing branch; None for a frame.
        pred: the predicate, past identities; None for a frame.
        side: the value of the predicate for which the branch is alive, 0 or 1.
        depth: the number of enclosing branches.
        keeps_control_flow: why a region inside it is not functionalized; empty if all are.
        children: the two sides of each conditional inside it, by predicate.
    """

    __slots__ = ("children", "depth", "keeps_control_flow", "parent", "pred", "side")

    def __init__(
        self, parent: Branch | None = None, pred: Tensor | None = None, side: int = 0
    ) -> None:
        self.parent = parent
        self.pred = pred
        self.side = side
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.keeps_control_flow = ""
        self.children: dict[Tensor, tuple[Branch, Branch]] = {}

    def sides(self, pred: Tensor) -> tuple[Branch, Branch]:
        """Return the two sides of the conditional on `pred` inside this branch."""
        existing = self.children.get(pred)
        if existing is None:
            existing = self.children[pred] = (Branch(self, pred, 0), Branch(self, pred, 1))
        return existing

    def side_of(self, pred: Tensor, side: int) -> Branch | None:
        """Return the branch of one output of a `Switch` on `pred`; None if it is never alive."""
        branch: Branch | None = self
        while branch is not None and branch.parent is not None:
            if branch.pred == pred:
                return self if branch.side == side else None
            branch = branch.parent
        return self.sides(pred)[side]

    def is_within(self, other: Branch) -> bool:
        """Return whether the branch equals `other` or is nested in it."""
        branch: Branch | None = self
        while branch is not None and branch.depth > other.depth:
            branch = branch.parent
        return branch is other


class Liveness:
    """The branch of each node of a graph.

    Attributes:
        frames: the frame of each node.
        roots: the branch of each whole frame.
        enters, exits: the `Enter` nodes into a frame, and the `Exit` nodes out of it.
        may_act: returns whether a node has effects besides computing its outputs.
    """

    def __init__(self, graph: Graph, may_act: Callable[[Node], bool] | None = None) -> None:
        """Analyse a graph.

        Args:
            graph: the graph.
            may_act: see the attribute; by default according to the node's op.

        Raises:
            InvalidArgumentError: its frames are malformed.
        """
        self.may_act = may_act or has_active_op
        self.frames, infos = analyse_frames(graph)
        self.roots: dict[FramePath, Branch] = {path: Branch() for path in infos}
        self.enters: dict[FramePath, list[Node]] = defaultdict(list)
        self.exits: dict[FramePath, list[Node]] = defaultdict(list)
        self._of: dict[Node, Branch | None] = {}
        self._triggers = {node: None for node in graph.nodes if is_control_trigger(node)}
        self._enclosing: dict[FramePath, Branch | None] = {}
        self._members: dict[Branch, dict[Node, None]] = defaultdict(dict)
        for node, path in self.frames.items():
            if is_enter(node):
                self.enters[output_frame(node, self.frames)].append(node)
            elif is_exit(node):
                self.exits[path].append(node)
        for node in self._order(graph.nodes):
            self._of[node] = self._branch_of(node)
        for node in self._of:
            self._place(node, self._of[node])
        self.place_control_triggers()

    def of(self, node: Node) -> Branch | None:
        """Return the branch of a node; None if unknown."""
        return self._of.get(node)

    def of_output(self, tensor: Tensor) -> Branch | None:
        """Return the branch of an output; None if unknown."""
        node, output = tensor
        branch = self.of(node)
        if branch is None:
            return None
        if is_switch(node) and output >= 0:
            return branch.side_of(pred_of(node), output)
        if output >= 0 and (node.op_def.traits.gives_dead or _may_receive_dead(node)):
            return None
        if is_enter(node):
            return self.roots[output_frame(node, self.frames)]
        return self.enclosing(self.frames[node]) if is_exit(node) else branch

    def enclosing(self, path: FramePath) -> Branch | None:
        """Return the branch that contains a loop: the common branch of its `Enter` nodes."""
        if path not in self._enclosing:
            self._enclosing[path] = join(self.of(node) for node in self.enters[path])
        return self._enclosing[path]

    def members(self, branch: Branch) -> list[Node]:
        """Return the nodes of a branch without those of nested branches."""
        return list(self._members.get(branch, ()))

    def replace(
        self, removed: Iterable[Node], new_node: Node, branch: Branch, path: FramePath
    ) -> None:
        """Record that a node of a branch replaced others."""
        self.forget(removed)
        self._place(new_node, branch)
        self.frames[new_node] = path

    def forget(self, removed: Iterable[Node]) -> None:
        """Record that nodes were removed."""
        for node in removed:
            del self.frames[node]
            self._triggers.pop(node, None)
            branch = self._of.pop(node, None)
            if branch is not None:
                self._members[branch].pop(node, None)

    def _order(self, nodes: Iterable[Node]) -> list[Node]:
        """Return the nodes in topological order, each `Exit` after all `Enter`s of its loop.

        Nodes that cannot be ordered are omitted: those of a loop that waits for its own result.
        """
        waiting: dict[Node, int] = {}
        for node in nodes:
            waiting[node] = sum(1 for _ in forward_inputs(node))
            if is_exit(node):
                waiting[node] += len(self.enters[self.frames[node]])
        order = [node for node, count in waiting.items() if not count]
        for node in order:
            followers = [edge.dst for edge in node.out_edges if not is_back_edge(edge)]
            if is_enter(node):
                followers += self.exits[output_frame(node, self.frames)]
            for follower in followers:
                if follower in waiting:
                    waiting[follower] -= 1
                    if not waiting[follower]:
                        order.append(follower)
        return order

    def _branch_of(self, node: Node) -> Branch | None:
        root = self.roots[self.frames[node]]
        if is_merge(node):
            return self._merged(node, root)
        if is_control_trigger(node):
            return root  # it also runs with dead inputs; see `place_control_triggers`
        return join((self._reached(edge) for edge in forward_inputs(node)), root)

    def _reached(self, edge: Edge) -> Branch | None:
        if is_exit(edge.src) and edge.is_control:
            return self.enclosing(self.frames[edge.src])
        return self.of_output((edge.src, edge.src_output))

    def _merged(self, node: Node, root: Branch) -> Branch | None:
        branch: Branch | None
        sources = [self._reached(edge) for edge in node.in_edges if not is_back_edge(edge)]
        if len(sources) < len(node.in_edges):
            branch = root if sources == [root] else None
        else:
            branch = _closed(sources)
        for edge in node.control_in_edges:
            if edge.src is node.graph.source:
                continue
            # A dead control input does not make a Merge dead, so no control input may be dead.
            waits = self._reached(edge)
            if branch is None or waits is None or not branch.is_within(waits):
                return None
        return branch

    def place_control_triggers(self) -> None:
        """Place a `ControlTrigger` in the branch of its inputs if its consumers are there too.

        It runs even if its inputs are dead, which makes no difference if all its consumers are dead
        then. Otherwise its branch is unknown.
        """
        for node in self._triggers:
            root = self.roots[self.frames[node]]
            joined = join((self._reached(edge) for edge in forward_inputs(node)), root)
            for edge in node.out_edges:
                branch = self._of.get(edge.dst)
                if joined is None or branch is None or not branch.is_within(joined):
                    joined = None
                    break
            self._place(node, joined)

    def _place(self, node: Node, branch: Branch | None) -> None:
        before = self._of.get(node)
        if before is not None:
            self._members[before].pop(node, None)
        self._of[node] = branch
        if branch is not None:
            self._members[branch][node] = None


def _may_receive_dead(node: Node) -> bool:
    """Return whether a node receives a value that may be dead where it was computed."""
    return is_receive(node) and not node.attrs.get(NEVER_DEAD_ATTR)


def join(branches: Iterable[Branch | None], root: Branch | None = None) -> Branch | None:
    """Return the innermost of nested branches; None if they are not nested.

    Args:
        branches: some branches; None for an unknown one.
        root: an outer bound: the result is this branch or one nested in it.
    """
    innermost = root
    for branch in branches:
        if branch is None:
            return None
        if innermost is None or branch.is_within(innermost):
            innermost = branch
        elif not innermost.is_within(branch):
            return None
    return innermost


def _closed(sources: Sequence[Branch | None]) -> Branch | None:
    """Return the branch around the conditional whose two sides are merged."""
    if len(sources) == 1:
        return sources[0]
    if len(sources) != 2:
        return None
    first, second = sources
    if first is None or second is None or first is second or first.parent is None:
        return None
    is_pair = first.parent is second.parent and first.pred == second.pred
    return first.parent if is_pair else None


def pred_of(switch: Node) -> Tensor:
    """Return the predicate of a `Switch`, past identities."""
    edge = switch.in_edges[1]
    while edge.src.op_def.traits.forwards:
        before = edge.src.in_edges[edge.src_output]
        if before.src.output_types[before.src_output].is_ref:
            break
        edge = before
    return edge.src, edge.src_output


def forward_inputs(node: Node) -> Iterator[Edge]:
    """Return the input edges of a node without those from `_SOURCE` and back edges of loops."""
    source = node.graph.source
    for edge in (*node.in_edges, *node.control_in_edges):
        if edge.src is not source and not is_back_edge(edge):
            yield edge
