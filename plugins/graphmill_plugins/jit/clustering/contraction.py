"""`Contraction`: replace the nodes of a cluster by one node."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Final

from graphmill.spi import ClusterRecord, Graph, compilation_of
from graphmill.spi.compilers import ShapeSources
from graphmill.spi.graphs import FunctionBody
from graphmill_plugins.jit.ir.argument_nodes import add_argument, add_result
from graphmill_plugins.jit.ir.cluster_attr import CALLS, INNER_CALLS, ClusterAttr
from graphmill_plugins.jit.ir.cluster_op import CLUSTER, STRAIGHT_LINE
from graphmill_plugins.jit.ir.handles import RESOURCE
from graphmill_plugins.jit.ir.invariant_nodes import is_source

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphmill.spi import Edge, FuncAttr, Node, OpDef
    from graphmill.spi.graphs import OpRegistry
    from graphmill.spi.passes import PassOptions
    from graphmill_plugins.jit.ir.cluster_attr import FunctionKey

_CACHE_VARIABLE: Final = "GRAPHMILL_JIT_CACHE_DIR"
_numbers = itertools.count()


def control_inputs(node: Node) -> list[Edge]:
    """Return the control edges into a node, without those of the graph's source."""
    source = node.graph.source
    return [edge for edge in node.control_in_edges if edge.src is not source]


class Contraction:
    """Replaces the nodes of a cluster by one `_Cluster` node.

    Args:
        graph: the graph of the nodes.
        members: the cluster, in topological order.
        options: those of the pass.
        op_def: the op of the new node.
        recorder: the graph that records the cluster; by default `graph`.
        owner: the library function that the nodes belong to, if any.
        shapes: the relations of shapes in `graph`, which the contractions of one graph share, so
            that they are known across clusters that have already been contracted.

    Attributes:
        functions: bodies of called functions that replace those of the library.
        reason: why the cluster cannot be compiled; empty if it can.
    """

    def __init__(
        self,
        graph: Graph,
        members: list[Node],
        options: PassOptions,
        op_def: OpDef = CLUSTER,
        recorder: Graph | None = None,
        owner: FuncAttr | None = None,
        shapes: ShapeSources | None = None,
    ) -> None:
        self.shapes = shapes or ShapeSources()
        self.body_shapes = ShapeSources()
        self.first_of_shape: dict[tuple[Node, int], tuple[Node, int]] = {}  # arguments by source
        self.recorder = recorder or graph
        self.owner = owner
        self.functions: Mapping[FunctionKey, FunctionBody] = {}
        self.reason = ""
        self.graph = graph
        self.op_def = op_def
        self.members = members
        self.ops: OpRegistry = options.host.ops
        self.options = options.config.graphmill
        self.inside = set(members)
        self.body = Graph()
        self.body.library = graph.library
        self.inputs: dict[tuple[Node, int], Node] = {}
        self.outputs: dict[tuple[Node, int], int] = {}

    def why_not(self) -> str:
        """Return why the cluster cannot be contracted; empty if it can."""
        for edge in self._leaving():
            if self._leaves_as_reference(edge):
                return f"{edge.dst.name} uses the variable itself, which a cluster cannot return"
        return ""

    def contract(self) -> str:
        """Move the nodes into a body and connect the cluster's node.

        Returns:
            Why the cluster cannot be contracted; empty if it was.
        """
        reason = self.why_not()
        if reason:
            return reason
        copies = self.body.copy_nodes([*self.members, *self._sources()])
        for node, copy in copies.items():
            self._connect(node, copy, copies)
        leaving = self._leaving()
        for edge in leaving:
            self.outputs.setdefault((edge.src, edge.src_output), len(self.outputs))
        for (src, output), index in self.outputs.items():
            name = self._free(f"output_{index}")
            add_result(self.body, self.ops, name, index, (copies[src], output))
        name = f"{self._name()}/{next(_numbers)}"
        record = ClusterRecord(name, tuple(node.name for node in self.members))
        compilation_of(self.recorder).clusters.append(record)
        self._replace(self._attr(record), leaving)
        return ""

    def _attr(self, record: ClusterRecord) -> ClusterAttr:
        options = self.options
        return ClusterAttr(
            self._name(),
            body=self._function_body(),
            mode="straight-line" if options.deterministic else options.jit or "tiered",
            cache_dir=options.jit_cache_dir or os.environ.get(_CACHE_VARIABLE, ""),
            cache_bytes=options.jit_cache_bytes,
            record=record,
            functions=self.functions,
            calls=CALLS if self.recorder is self.graph else INNER_CALLS,
            owner=self.owner,
            reason=self.reason,
            measures_nodes=options.jit_node_times,
            shapes=self.body_shapes,
        )

    def _leaving(self) -> list[Edge]:
        return [
            edge
            for node in self.members
            for edge in node.out_edges
            if not edge.is_control and edge.dst not in self.inside
        ]

    def _leaves_as_reference(self, edge: Edge) -> bool:
        """Return whether an edge carries a reference or a handle, which no program can return.

        Generated code that is never compiled may return handles. The variants that leave a cluster
        are pytrees (see `shared_structures`), which programs can return.
        """
        if edge.dst.input_types[edge.dst_input].is_ref:
            return True
        is_handle = edge.src.output_types[edge.src_output].base_dtype.name == RESOURCE
        return is_handle and self.op_def is not STRAIGHT_LINE

    def _sources(self) -> list[Node]:
        sources = {
            edge.src: None
            for node in self.members
            for edge in node.in_edges
            if is_source(edge.src) and edge.src not in self.inside and not control_inputs(edge.src)
        }
        return list(sources)

    def _connect(self, node: Node, copy: Node, copies: dict[Node, Node]) -> None:
        for position, edge in enumerate(node.in_edges):
            src = copies.get(edge.src)
            if src is not None:
                self.body.add_edge(src, edge.src_output, copy, position)
            else:
                self.body.add_edge(self._argument(edge.src, edge.src_output), 0, copy, position)
        control = [copies[edge.src] for edge in node.control_in_edges if edge.src in copies]
        self.body.add_control_edges(control, copy)

    def _argument(self, src: Node, output: int) -> Node:
        existing = self.inputs.get((src, output))
        if existing is None:
            index = len(self.inputs)
            name, dtype = self._free(f"input_{index}"), src.output_types[output]
            existing = add_argument(self.body, self.ops, name, index, dtype)
            self.inputs[src, output] = existing
            source = self.shapes.of((src, output))
            if source is not None:  # the nodes of the body refer to no others, and can outlive them
                source = self.first_of_shape.setdefault(source, (existing, 0))
            self.body_shapes.declare((existing, 0), source)
        return existing

    def _function_body(self) -> FunctionBody:
        arg_types = tuple(src.output_types[output] for src, output in self.inputs)
        ret_types = tuple(src.output_types[output].base_dtype for src, output in self.outputs)
        return FunctionBody(self._name(), self.body, arg_types, ret_types, ())

    def _replace(self, attr: ClusterAttr, leaving: list[Edge]) -> None:
        graph, body, record = self.graph, attr.body, attr.record
        assert body is not None
        assert record is not None
        before = {
            edge.src: None
            for node in self.members
            for edge in control_inputs(node)
            if edge.src not in self.inside
        }
        after = {
            edge.dst: None
            for node in self.members
            for edge in node.out_edges
            if edge.is_control and edge.dst not in self.inside and edge.dst is not graph.sink
        }
        node = graph.add_node(
            record.name,
            self.op_def,
            list(self.inputs),
            list(before),
            {"Tin": body.arg_types, "Tout": body.ret_types, "f": attr},
        )
        node.assigned_device = self.members[0].assigned_device
        for tensor, index in self.outputs.items():
            self.shapes.declare((node, index), self.shapes.of(tensor))
        for edge in leaving:
            index = self.outputs[edge.src, edge.src_output]
            graph.replace_input(edge.dst, edge.dst_input, node, index)
        for follower in after:
            graph.add_control_edge(node, follower)
        sources = self._sources()
        graph.withdraw(self.members)
        graph.withdraw(_unread(sources))

    def _name(self) -> str:
        return f"cluster/{self.members[-1].name}"

    def _free(self, name: str) -> str:
        while self.body.has_node(name):
            name += "_"
        return name


def _unread(sources: Iterable[Node]) -> list[Node]:
    """Return the sources without consumers other than the graph's sink."""
    return [
        node
        for node in sources
        if not any(edge.dst is not node.graph.sink for edge in node.out_edges)
    ]
