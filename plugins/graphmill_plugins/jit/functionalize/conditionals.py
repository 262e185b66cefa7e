"""Find the conditionals that `Switch` and `Merge` nodes form, and prove their structure.

A conditional consists of the `Switch` nodes that read one predicate, the nodes that are alive on
one side only, and the `Merge` nodes of both sides. Values may leave a side only through a `Merge`.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from graphmill.spi import topological_order
from graphmill.spi.graphs import (
    is_argument_or_result,
    is_back_edge,
    is_control_trigger,
    is_loop_cond,
    is_merge,
    is_next_iteration,
    is_switch,
    is_transfer,
)
from graphmill_plugins.jit.functionalize.liveness import (
    pred_of,
)
from graphmill_plugins.jit.functionalize.region import NotProvenError, Region, check_removable

if TYPE_CHECKING:
    from collections.abc import Collection

    from graphmill.spi import Graph, Node
    from graphmill_plugins.jit.functionalize.liveness import Branch, Liveness, Tensor
    from graphmill_plugins.jit.functionalize.node_order import NodeOrder


def is_boundary(node: Node) -> bool:
    """Return whether a value enters or leaves the graph at a node, dead or alive."""
    return is_argument_or_result(node) or is_transfer(node)


class Conditional:
    """A conditional formed by `Switch` and `Merge` nodes.

    Attributes:
        enclosing: the branch that contains it.
        pred: its predicate.
        switches: the `Switch` nodes, through which values enter.
        sides: the nodes that run if the predicate is false, and those that run if it is true.
        merges: the `Merge` nodes, through which values leave; alive if the conditional is alive.
    """

    __slots__ = ("enclosing", "merges", "pred", "sides", "switches")

    def __init__(
        self,
        enclosing: Branch,
        pred: Tensor,
        switches: list[Node],
        sides: tuple[list[Node], list[Node]],
        merges: list[Node],
    ) -> None:
        self.enclosing = enclosing
        self.pred = pred
        self.switches = switches
        self.sides = sides
        self.merges = merges

    @property
    def name(self) -> str:
        """The name scope of its first `Switch`, or the name of its predicate."""
        first = min(self.switches, key=lambda node: node.id)
        return first.name.rpartition("/")[0] or self.pred[0].name

    @property
    def nodes(self) -> list[Node]:
        """All nodes of the conditional."""
        return [*self.switches, *self.sides[0], *self.sides[1], *self.merges]

    def region(self) -> Region:
        """Return the conditional as a `Region`."""
        return Region("cond", self.name, tuple(self.nodes))


def find_conditionals(liveness: Liveness, root: Branch) -> list[Conditional]:
    """Return the conditionals of a frame, inner ones first, without the loop's own."""
    conditionals: list[Conditional] = []
    pending = [root]
    while pending:
        enclosing = pending.pop()
        if not enclosing.children:
            continue
        switches, merges = _switches_and_merges(enclosing, liveness)
        for pred, sides in enclosing.children.items():
            pending.extend(sides)
            if is_loop_cond(pred[0]):
                continue
            inside = (liveness.members(sides[0]), liveness.members(sides[1]))
            item = Conditional(enclosing, pred, switches[pred], inside, merges[frozenset(sides)])
            conditionals.append(item)
    return sorted(conditionals, key=lambda item: -item.enclosing.depth)


def _switches_and_merges(
    branch: Branch, liveness: Liveness
) -> tuple[dict[Tensor, list[Node]], dict[frozenset[Branch | None], list[Node]]]:
    """Return the `Switch` nodes of a branch by predicate, its `Merge` nodes by their sources."""
    switches: dict[Tensor, list[Node]] = defaultdict(list)
    merges: dict[frozenset[Branch | None], list[Node]] = defaultdict(list)
    for node in liveness.members(branch):
        if is_switch(node):
            switches[pred_of(node)].append(node)
        elif is_merge(node):
            sources = [liveness.of_output((edge.src, edge.src_output)) for edge in node.in_edges]
            merges[frozenset(sources)].append(node)
    return switches, merges


def refresh(item: Conditional, liveness: Liveness) -> None:
    """Update the conditional after inner conditionals were rewritten."""
    sides = item.enclosing.sides(item.pred)
    item.sides = (liveness.members(sides[0]), liveness.members(sides[1]))


def prove_conditional(item: Conditional, liveness: Liveness, keep: Collection[Node]) -> None:
    """Check that a conditional can become a functional node.

    Raises:
        NotProvenError: it cannot; the message is the reason.
    """
    sides = item.enclosing.sides(item.pred)
    for branch in sides:
        if branch.keeps_control_flow:
            raise NotProvenError(branch.keeps_control_flow)
    merges = set(item.merges)
    check_removable(item.nodes, keep)
    for switch in item.switches:
        for edge in switch.out_edges:
            is_data = not edge.is_control and is_merge(edge.dst)
            if is_data and edge.dst.input_types[edge.dst_input].is_ref:
                raise NotProvenError(
                    f"{switch.name} passes a reference to {edge.dst.name} (Merge); return the "
                    "value of the variable (Identity) from each branch"
                )
        _check_uses(switch, sides, merges, liveness)
    for branch, members in zip(sides, item.sides, strict=True):
        for node in members:
            _check_member(node)
            _check_uses(node, (branch, branch), merges, liveness)
    for merge in item.merges:
        if merge.output_types[0].is_ref:
            raise NotProvenError(f"{merge.name} returns a reference")


def _check_member(node: Node) -> None:
    if node.op_def.traits.is_control_flow:
        raise NotProvenError(f"it contains the control-flow node {node.name} ({node.op})")
    if is_boundary(node):
        name = node.in_edges[0].src.name if node.in_edges else node.name
        raise NotProvenError(f"{name} may be dead and is fetched or sent")


def _check_uses(
    node: Node, sides: tuple[Branch, Branch], merges: set[Node], liveness: Liveness
) -> None:
    for edge in node.out_edges:
        if edge.dst is node.graph.sink:
            continue
        branch = liveness.of(edge.dst)
        if edge.is_control:
            # A ControlTrigger also waits for dead nodes: it will wait for the whole conditional.
            is_loose = is_control_trigger(edge.dst) and branch is None
            if is_switch(node) or branch is sides[0] or is_loose:
                continue
        elif edge.dst in merges or branch is sides[edge.src_output if is_switch(node) else 0]:
            continue
        raise NotProvenError(f"{node.name} may be dead, and {edge.dst.name} uses it")


def ranks(
    item: Conditional, graph: Graph, waits: Collection[Node], order: NodeOrder
) -> dict[Node, int]:
    """Return for each node of a conditional the number of times that paths to it leave it.

    Nodes of one rank can become one node without closing a cycle.

    Args:
        item: the conditional.
        graph: its graph.
        waits: nodes that may wait for another node without an edge from it. Nodes after such a node
            get another rank than those before it, so that the new nodes cannot deadlock.
        order: an order of the graph's nodes.
    """
    members, merges = {*item.sides[0], *item.sides[1]}, set(item.merges)
    inside = members | merges
    if not waits and not _leads_back(inside, merges, order):
        return dict.fromkeys(inside, 0)
    rank: dict[Node, int] = {}
    for node in topological_order(graph):
        largest = 0
        for edge in (*node.in_edges, *node.control_in_edges):
            if edge.src in rank and not is_back_edge(edge):
                leaves = edge.src in merges or (edge.src in members and node not in inside)
                largest = max(largest, rank[edge.src] + leaves)
        rank[node] = largest + (node in waits)
    return {node: rank[node] for node in inside}


def _leads_back(inside: set[Node], merges: set[Node], order: NodeOrder) -> bool:
    """Return whether a path leaves a conditional and enters it again.

    Nodes after the last one of the conditional are not searched: no path leads back from there.
    """
    positions = order.positions()
    last = max(positions[node] for node in inside)
    seen: set[Node] = set()
    stack: list[Node] = []
    for node in inside:
        for edge in node.out_edges:
            if edge.dst not in inside:
                seen.add(edge.dst)
            elif node in merges:
                return True
    sink = next(iter(inside)).graph.sink
    stack.extend(node for node in seen if node is not sink)
    while stack:
        node = stack.pop()
        if positions[node] > last:
            continue
        is_last = is_next_iteration(node)
        for edge in node.out_edges:
            if is_last and is_back_edge(edge):
                continue
            if edge.dst in inside:
                return True
            if edge.dst not in seen and edge.dst is not sink:
                seen.add(edge.dst)
                stack.append(edge.dst)
    return False
