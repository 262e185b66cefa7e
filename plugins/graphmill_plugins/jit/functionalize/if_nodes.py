"""Replace proven conditionals by `If` nodes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from graphmill.dtypes import int32
from graphmill.spi import FuncAttr, TensorAttr
from graphmill.spi.graphs import forwarded
from graphmill_plugins.jit.functionalize.body_builder import (
    BodyBuilder,
    Captures,
    common_device,
    effects_among,
    entered,
    has_effects,
    is_cloned,
    only_forwards,
    origin_of,
)
from graphmill_plugins.jit.functionalize.liveness import pred_of
from graphmill_plugins.jit.ir.unique_name import unique_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from graphmill.spi import Edge, Graph, Node
    from graphmill.spi.graphs import FunctionBody, OpRegistry
    from graphmill_plugins.jit.functionalize.conditionals import Conditional
    from graphmill_plugins.jit.functionalize.liveness import Tensor

_SIDES = ("false", "true")


class IfMaker:
    """Rewrites one conditional.

    Args:
        graph: its graph.
        ops: definitions of ops.
        item: the conditional.
        rank: the rank of each node (see `ranks`); nodes of one rank become one node.

    Attributes:
        new_nodes: the nodes that replace the conditional.
        functions: the names of their branches in the graph's library.
    """

    def __init__(
        self, graph: Graph, ops: OpRegistry, item: Conditional, rank: Mapping[Node, int]
    ) -> None:
        self.new_nodes: list[Node] = []
        self.functions: list[str] = []
        self._graph = graph
        self._ops = ops
        self._item = item
        self._switches = set(item.switches)
        values = sorted({*rank.values()})
        self._parts = [_Part(self, [n for n in rank if rank[n] == value]) for value in values]
        self._part_of = {node: part for part in self._parts for node in part.nodes}
        self._replacements: dict[Tensor, Tensor] = {}  # outputs of new nodes by outputs of old ones

    def rewrite(self) -> None:
        """Replace the conditional.

        Raises:
            NotProvenError: it cannot be replaced; the graph is unchanged.
        """
        for part in self._parts:
            part.build(self._graph, self._ops)
        for part in self._parts:
            self._put(part)
        for switch in self._item.switches:
            self._pass_waits(switch)
        for merge in self._item.merges:
            for output in (0, 1):
                if (merge, output) in self._replacements:
                    self._graph.redirect(merge, output, *self._replacements[merge, output])
        for node, part in self._part_of.items():
            for edge in [edge for edge in node.out_edges if edge.is_control]:
                if edge.dst not in self._part_of and edge.dst not in self._switches:
                    self._graph.add_control_edge(part.node, edge.dst)
        self._graph.withdraw(self._item.nodes)

    def outside(self, side: int, tensor: Tensor) -> Tensor:
        """Return the tensor that a branch captures to read an outer tensor."""
        del side
        return entered(tensor[0]) if tensor[0] in self._switches else tensor

    def side_input(self, merge: Node, side: int) -> Edge:
        """Return the edge that carries the result of a branch to a `Merge`."""
        return next(edge for edge in merge.in_edges if self._side(edge) == side)

    def is_later(self, part: _Part, node: Node) -> bool:
        """Return whether a node belongs to a later part of the conditional."""
        other = self._part_of.get(node)
        return other is not None and other is not part

    def members(self, part: _Part, side: int) -> list[Node]:
        """Return the nodes of a part that run in one branch."""
        return [node for node in self._item.sides[side] if self._part_of[node] is part]

    def merges(self, part: _Part) -> list[Node]:
        """Return the `Merge` nodes of a part."""
        return [node for node in self._item.merges if self._part_of[node] is part]

    def _side(self, edge: Edge) -> int:
        if edge.src in self._switches:
            return edge.src_output
        return 1 if edge.src in set(self._item.sides[1]) else 0

    def _put(self, part: _Part) -> None:
        """Add the node of a part; earlier parts must have been added."""
        graph = self._graph
        is_stateful = any(has_effects(body) for body in part.bodies)
        op_def = self._ops.get("If" if is_stateful else "StatelessIf")
        node_name = unique_name(graph, f"{self._item.name}/{op_def.name}", _SIDES)
        names = [f"{node_name}/{side}" for side in _SIDES]
        for name, body in zip(names, part.bodies, strict=True):
            graph.library.add_body(name, body._replace(name=name))
        self.functions += names
        pred, pred_output = pred_of(self._item.switches[0])
        inputs = [self._source(tensor) for tensor in part.captures.tensors]
        attrs = op_def.with_defaults(
            {
                "Tcond": pred.output_types[pred_output].base_dtype,
                "Tin": part.captures.types,
                "Tout": part.bodies[0].ret_types,
                "then_branch": FuncAttr(names[1]),
                "else_branch": FuncAttr(names[0]),
            }
        )
        device, assigned = common_device(part.nodes)
        part.node = graph.add_node(
            node_name,
            op_def,
            [(pred, pred_output), *inputs],
            self._control_inputs(part),
            attrs,
            device,
        )
        part.node.assigned_device = assigned
        self.new_nodes.append(part.node)
        for index, tensor in enumerate(part.outputs):
            self._replacements[tensor] = (part.node, index)

    def _source(self, tensor: Tensor) -> Tensor:
        if tensor[0] in self._switches:
            edge = tensor[0].in_edges[0]
            tensor = (edge.src, edge.src_output)
        return self._replacements.get(tensor, tensor)

    def _control_inputs(self, part: _Part) -> list[Node]:
        used = {
            edge.src for node in part.nodes for edge in node.in_edges if edge.src in self._switches
        }
        nodes: dict[Node, None] = {}
        # The new node reads the predicate from its origin, so it must also wait for identities in
        # between that have control inputs.
        origin = pred_of(self._item.switches[0])[0]
        forwarded_preds = dict.fromkeys(
            (e.src, e.src_output) for s in used if (e := s.in_edges[1]).src != origin
        )
        nodes.update(dict.fromkeys(t[0] for t in forwarded_preds if _waits_for_more(t)))
        for node in (*part.nodes, *used):
            for edge in node.control_in_edges:
                for src in self._waits(edge.src):
                    before = self._part_of.get(src)
                    if before is None:
                        nodes[src] = None
                    elif before is not part and not only_forwards(src):
                        nodes[before.node] = None
        return list(nodes)

    def _waits(self, src: Node) -> Iterator[Node]:
        """Return the nodes that replace `src` as control inputs; for a `Switch`, its inputs."""
        if src is self._graph.source:
            return
        if src not in self._switches:
            yield src
            return
        for edge in (*src.in_edges, *src.control_in_edges):
            yield from self._waits(edge.src)

    def _pass_waits(self, switch: Node) -> None:
        """Replace outer control edges from a `Switch` by control edges from its inputs."""
        for edge in [edge for edge in switch.out_edges if edge.is_control]:
            if edge.dst in self._part_of or edge.dst in self._switches:
                continue
            for src in self._waits(switch):
                part = self._part_of.get(src)
                self._graph.add_control_edge(src if part is None else part.node, edge.dst)


def _waits_for_more(tensor: Tensor) -> bool:
    """Return whether a chain of identities has control inputs."""
    before: Tensor | None = tensor
    while before is not None:
        node = before[0]
        before = forwarded(*before)
        if before and any(e.src is not node.graph.source for e in node.control_in_edges):
            return True
    return False


class _Part:
    """The part of a conditional that becomes one node.

    Attributes:
        nodes: its nodes, without `Switch`es.
        captures: the outer tensors that its branches read.
        bodies: its branches, the one for false first.
        outputs: the tensors that other nodes read, in order.
        node: the new node, once it has been added.
    """

    node: Node

    def __init__(self, maker: IfMaker, nodes: Iterable[Node]) -> None:
        self._maker = maker
        self.nodes = list(nodes)
        self.captures = Captures()
        self.bodies: list[FunctionBody] = []
        self.outputs: list[Tensor] = []

    def build(self, graph: Graph, ops: OpRegistry) -> None:
        """Build the branches.

        Raises:
            NotProvenError: one of them cannot be a function.
        """
        maker = self._maker
        merges = maker.merges(self)
        builders = []
        for side in (0, 1):
            body = BodyBuilder(graph, ops, self.captures, partial(maker.outside, side))
            body.copy(maker.members(self, side))
            builders.append(body)
        for merge in merges:
            self._return_merge(merge, builders)
        for side in (0, 1):
            for tensor in self._crossing(maker.members(self, side)):
                self._return_crossing(tensor, builders, side)
        for side, body in enumerate(builders):
            effects = effects_among(maker.members(self, side))
            self.bodies.append(body.finish(_SIDES[side], effects))
        # Both branches take the same arguments, even those that only one of them reads.
        types = self.captures.types
        self.bodies = [body.with_arg_types(types) for body in self.bodies]

    def _return_merge(self, merge: Node, builders: list[BodyBuilder]) -> None:
        wants_index = any(edge.src_output == 1 for edge in merge.out_edges)
        for side, body in enumerate(builders):
            edge = self._maker.side_input(merge, side)
            body.ret(body.tensor((edge.src, edge.src_output)))
            if wants_index:
                value = TensorAttr(np.array(edge.dst_input, np.int32))
                attrs = {"dtype": int32, "value": value}
                body.ret((body.add("Const", f"{merge.name}/value_index", (), attrs), 0))
        self.outputs.append((merge, 0))
        if wants_index:
            self.outputs.append((merge, 1))

    def _crossing(self, members: Iterable[Node]) -> list[Tensor]:
        """Return the outputs of some nodes that later parts of the conditional read."""
        tensors: dict[Tensor, None] = {}
        for node in members:
            for edge in node.out_edges:
                if not edge.is_control and self._maker.is_later(self, edge.dst):
                    tensor = (node, edge.src_output)
                    if not is_cloned(origin_of(tensor)):
                        tensors[tensor] = None
        return list(tensors)

    def _return_crossing(self, tensor: Tensor, builders: list[BodyBuilder], side: int) -> None:
        """Return outputs that only one branch computes; the other returns an unread placeholder."""
        dtype = tensor[0].output_types[tensor[1]].base_dtype
        fake = builders[1 - side].add(
            "FakeParam", f"{tensor[0].name}/absent", (), {"dtype": dtype, "shape": None}
        )
        builders[1 - side].ret((fake, 0))
        builders[side].ret(builders[side].tensor(tensor))
        self.outputs.append(tensor)
