"""Rewrite a graph for one feed/fetch/target signature and prune it (clause S4).

Semantics: `RewriteGraphForExecution` in `tensorflow/core/graph/subgraph.cc`: consumers of a fed
tensor read an `_Arg` instead; a `_Retval` consumes each fetched tensor; nodes that no fetch or
target needs are removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from graphmill.errors import InvalidArgumentError, InvalidValueError
from graphmill.graph.algorithms import ancestors
from graphmill.graph.control_flow.frames import loop_of_output
from graphmill.graph.graph import Graph
from graphmill.graph.node import CONTROL_SLOT, find_node, find_tensor
from graphmill.graph.node_roles import (
    is_argument_or_result,
    is_next_iteration,
    is_placeholder,
    is_receive,
    is_send,
)
from graphmill.graph.transfer_ops import NEVER_DEAD_ATTR
from graphmill.lowering.callable_options import joined_tensors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphmill.dtypes import DType
    from graphmill.graph.node import Node
    from graphmill.lowering.callable_options import CallableRewrites
    from graphmill.ops.definition.op_registry import OpRegistry


class ClientGraph(NamedTuple):
    """A graph pruned and rewritten for one signature.

    Attributes:
        graph: has an `_Arg` for each feed and a `_Retval` for each fetch, indexed in order.
        feed_types, fetch_types: their element types.
    """

    graph: Graph
    feed_types: tuple[DType, ...]
    fetch_types: tuple[DType, ...]

    def needed_feeds(self) -> dict[str, set[str]]:
        """Map each fetch of a partial run to the feeds that it needs, by tensor names."""
        return {
            _client_tensor(node): {
                _client_tensor(ancestor)
                for ancestor in ancestors([node])
                if is_receive(ancestor) and _is_client(ancestor)
            }
            for node in self.graph.nodes
            if is_send(node) and _is_client(node)
        }


class ClientEnd(NamedTuple):
    """The client of a partial run as an endpoint of transfers, named after the client device.

    Attributes:
        device: full name of the session's client device.
        incarnation: incarnation of that device.
    """

    device: str
    incarnation: int

    def attrs(self, node: Node, output: int) -> dict[str, Any]:
        """Return the attrs of the `_Recv` of a fed tensor or the `_Send` of a fetched one."""
        return {
            "tensor_name": f"{node.name}:{output}".encode(),
            "send_device": self.device.encode(),
            "send_device_incarnation": self.incarnation,
            "recv_device": self.device.encode(),
            "client_terminated": True,
        }


def build_client_graph(
    full: Graph,
    ops: OpRegistry,
    feeds: Sequence[str],
    fetches: Sequence[str],
    targets: Sequence[str],
    client: ClientEnd | None = None,
    rewrites: CallableRewrites | None = None,
) -> ClientGraph:
    """Return the part of `full` that a signature needs; `full` is not changed.

    With `client`, feeds and fetches go through the rendezvous one by one, for a partial run
    (clause S8); otherwise they all go through the call frame. `rewrites` has connections between
    tensors, and devices of feeds and fetches (clause S7).

    Raises:
        NotFoundError: a feed, fetch or target does not exist; the message names near matches.
        InvalidArgumentError: a tensor is fed twice, or there are neither fetches nor targets.
    """
    fed = [find_tensor(full, name, "feed") for name in feeds]
    if len(set(fed)) != len(fed):
        twice = next(name for tensor, name in zip(fed, feeds, strict=True) if fed.count(tensor) > 1)
        raise InvalidArgumentError(f"tensor {twice!r} is fed more than once")
    fetched = [find_tensor(full, name, "fetch") for name in fetches]
    target_nodes = [find_node(full, name, "target") for name in targets]
    if not fetched and not target_nodes:
        raise InvalidArgumentError("Must specify at least one target to fetch or execute.")
    rewriter = _Rewriter(full, ops, fed, client)
    if rewrites is not None:
        rewriter.joined = joined_tensors(full, rewrites, fed, fetched)
        rewriter.arg_devices = dict(rewrites.feed_devices)
        rewriter.retval_devices = dict(rewrites.fetch_devices)
    return rewriter.rewrite(fetched, target_nodes)


class _Rewriter:
    """Copy the needed nodes into a new graph in which `_Arg`s replace fed tensors.

    Attributes:
        joined: maps tensors that a connection replaces to their replacements.
        arg_devices, retval_devices: map names of tensors to the requested device of the `_Arg` or
            `_Retval`.
    """

    def __init__(
        self,
        full: Graph,
        ops: OpRegistry,
        fed: Sequence[tuple[Node, int]],
        client: ClientEnd | None,
    ) -> None:
        self.client = client
        self.full = full
        self.ops = ops
        self.fed = fed
        self.feed_index = {tensor: index for index, tensor in enumerate(fed)}
        self.fed_placeholders = {
            node: index for index, (node, _) in enumerate(fed) if is_placeholder(node)
        }
        self.joined: Mapping[tuple[Node, int], tuple[Node, int]] = {}
        self.arg_devices: Mapping[str, str] = {}
        self.retval_devices: Mapping[str, str] = {}
        self.graph = Graph()
        self.graph.library = full.library
        self.graph.versions = full.versions

    def rewrite(self, fetched: Sequence[tuple[Node, int]], targets: Sequence[Node]) -> ClientGraph:
        needed = self._needed(fetched, targets)
        _refuse_boundaries(needed)
        _refuse_feeds_in_loops(self.fed)
        if any(map(is_next_iteration, needed)):
            _refuse_fetches_in_loops(tensor for tensor in fetched if tensor not in self.feed_index)
        self.copies = self.graph.copy_nodes(needed)
        self.args = [self._add_arg(index) for index in range(len(self.fed))]
        for node in needed:
            self._add_edges(node)
        for index, tensor in enumerate(fetched):
            self._add_retval(index, tensor)
        feed_types = tuple(node.output_types[output].base_dtype for node, output in self.fed)
        fetch_types = tuple(node.output_types[output].base_dtype for node, output in fetched)
        return ClientGraph(self.graph, feed_types, fetch_types)

    def _needed(self, fetched: Iterable[tuple[Node, int]], targets: Iterable[Node]) -> list[Node]:
        """Return the ancestors of fetches and targets, without those that only feeds need."""
        stack = [tensor[0] for tensor in fetched if tensor not in self.feed_index]
        stack.extend(targets)
        needed = set(stack)
        while stack:
            node = stack.pop()
            for edge in (*node.in_edges, *node.control_in_edges):
                src, output = self._joined(edge.src, edge.src_output)
                if src not in needed and not self._is_cut(src, output):
                    needed.add(src)
                    stack.append(src)
        return sorted(needed - {self.full.source}, key=lambda node: node.id)

    def _joined(self, src: Node, output: int) -> tuple[Node, int]:
        tensor = src, output
        while tensor in self.joined:
            tensor = self.joined[tensor]
        return tensor

    def _is_cut(self, src: Node, output: int) -> bool:
        if output == CONTROL_SLOT:
            return src in self.fed_placeholders
        return (src, output) in self.feed_index

    def _add_arg(self, index: int) -> Node:
        node, output = self.fed[index]
        dtype = node.output_types[output].base_dtype
        if self.client is None:
            op, name, attrs = "_Arg", "_arg", {"T": dtype, "index": index}
        else:
            op, name = "_Recv", "_recv"
            attrs = {"tensor_type": dtype, **self.client.attrs(node, output), NEVER_DEAD_ATTR: True}
        op_def = self.ops.get(op)
        return self.graph.add_node(
            self._free_name(f"{name}_{node.name}_{output}_{index}"),
            op_def,
            attrs=op_def.with_defaults(attrs),
            device=self.arg_devices.get(f"{node.name}:{output}", node.device),
        )

    def _free_name(self, name: str) -> str:
        # A graph that was exported after pruning already has nodes of these names.
        while self.graph.has_node(name):
            name += "_"
        return name

    def _add_retval(self, index: int, tensor: tuple[Node, int]) -> None:
        node, output = tensor
        attrs: dict[str, Any] = {"T": node.output_types[output].base_dtype}
        if self.client is None:
            op, name = "_Retval", "_retval"
            attrs["index"] = index
        else:
            op, name = "_Send", "_send"
            attrs.update(self.client.attrs(node, output))
        op_def = self.ops.get(op)
        self.graph.add_node(
            self._free_name(f"{name}_{node.name}_{output}_{index}"),
            op_def,
            [self._source(node, output)],
            attrs=op_def.with_defaults(attrs),
            device=self.retval_devices.get(
                f"{node.name}:{output}", node.assigned_device or node.device
            ),
        )

    def _source(self, node: Node, output: int) -> tuple[Node, int]:
        node, output = self._joined(node, output)
        index = self.feed_index.get((node, output))
        return (self.copies[node], output) if index is None else (self.args[index], 0)

    def _add_edges(self, node: Node) -> None:
        copy = self.copies[node]
        for position, edge in enumerate(node.in_edges):
            src, output = self._source(edge.src, edge.src_output)
            if node.input_types[position].is_ref and not src.output_types[output].is_ref:
                raise InvalidArgumentError(
                    f"Input {position} of node {node.name} was passed "
                    f"{src.output_types[output].tf_name} from {src.name}:{output} incompatible "
                    f"with expected {node.input_types[position].tf_name}. The node changes a "
                    f"variable, and a fed value is not a variable",
                    node=node.name,
                    op_type=node.op,
                )
            self.graph.add_edge(src, output, copy, position)
        if node.control_in_edges:
            sources = (self._control_source(edge.src) for edge in node.control_in_edges)
            self.graph.add_control_edges((src for src in sources if src is not None), copy)

    def _control_source(self, src: Node) -> Node | None:
        """Return the source of a control edge from `src` in the new graph; None for `_SOURCE`."""
        index = self.fed_placeholders.get(src)
        return self.copies.get(src) if index is None else self.args[index]


def _refuse_boundaries(needed: Iterable[Node]) -> None:
    """Raise for `_Arg` and `_Retval` nodes, which would clash with those of the client graph."""
    for node in needed:
        if is_argument_or_result(node):
            raise InvalidArgumentError(
                f"node {node.name!r} (op {node.op}) belongs to the graph of a function and cannot "
                f"run in a session: feed the output of an _Arg, fetch the input of a _Retval",
                node=node.name,
                op_type=node.op,
            )


def _refuse_feeds_in_loops(fed: Iterable[tuple[Node, int]]) -> None:
    for node, output in fed:
        loop = loop_of_output(node)
        if loop is not None:
            raise InvalidValueError(
                f"Tensor {node.name}:{output} may not be fed: it is in the loop {loop!r}, where it "
                f"has a different value in each iteration. Feed an input of the loop instead",
                node=node.name,
                op_type=node.op,
            )


def _refuse_fetches_in_loops(fetched: Iterable[tuple[Node, int]]) -> None:
    """Raise for fetched tensors in loops.

    Only called if the pruned graph has a `NextIteration`: without one, the loop does not iterate,
    and TensorFlow returns the value.
    """
    for node, output in fetched:
        loop = loop_of_output(node)
        if loop is not None:
            raise InvalidValueError(
                f"Operation {node.name} has been marked as not fetchable: {node.name}:{output} is "
                f"in the loop {loop!r}, where it has a different value in each iteration. Fetch an "
                f"output of the loop instead, or collect the values in a TensorArray; a watch "
                f"(RunOptions.debug_options) or `graphmill debug` shows those of a single step",
                node=node.name,
                op_type=node.op,
            )


def _is_client(node: Node) -> bool:
    """Return whether the client is an endpoint of a transfer."""
    return bool(node.attrs.get("client_terminated"))


def _client_tensor(node: Node) -> str:
    name: bytes = node.attrs["tensor_name"]
    return name.decode("utf-8", "surrogateescape")
