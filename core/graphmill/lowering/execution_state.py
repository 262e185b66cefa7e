"""`GraphExecutionState`: a session's full graph and client graphs built from it (clauses S3, S4).

Semantics: `tensorflow/core/common_runtime/graph_execution_state.cc`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import FailedPreconditionError
from graphmill.graph.formats.import_export import extend_graph, graph_to_graph_def
from graphmill.graph.graph import Graph
from graphmill.graph.node import parse_tensor_name
from graphmill.lowering.passes import PassOptions, run_passes
from graphmill.lowering.placement.base_graph import BaseGraphCheck
from graphmill.lowering.prune import ClientEnd, ClientGraph, build_client_graph

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphmill import proto
    from graphmill.graph.node import Node
    from graphmill.lowering.callable_options import CallableRewrites
    from graphmill.ops.definition.op_registry import OpRegistry
    from graphmill.proto.debug_pb2 import DebugTensorWatch


class GraphExecutionState:
    """The full graph of one session.

    Threads: the session calls it under its graph lock.

    Args:
        ops: the known ops.
        options: the arguments of passes.
        is_static: whether the graph cannot be extended after the first step.
        knows_kernels: whether the kernels of this process are those that will run the nodes.

    Attributes:
        graph: the full graph.
    """

    def __init__(
        self,
        ops: OpRegistry,
        options: PassOptions,
        *,
        is_static: bool,
        knows_kernels: bool = True,
    ) -> None:
        self.graph = Graph()
        self._ops = ops
        self._options = options
        self._is_static = is_static
        self._frozen = False
        self._base: BaseGraphCheck | None = None
        if not options.config.graph_options.place_pruned_graph:
            self._base = BaseGraphCheck(options, knows_kernels=knows_kernels)

    def extend(
        self,
        graph_def: proto.GraphDef,
        large_tensors: Mapping[tuple[str, str, str], Any] | None = None,
    ) -> None:
        """Add the nodes of a GraphDef; on an error the graph is unchanged.

        Raises:
            FailedPreconditionError: the session was created with `optimize_for_static_graph`.
            OpError: see `graphmill.graph.formats.import_export.extend_graph`.
        """
        self._check_extendable()
        extend_graph(self.graph, graph_def, self._ops, large_tensors)

    def extend_from(self, source: Graph, nodes: Sequence[Node]) -> None:
        """Add copies of another graph's nodes; their inputs must be copied too or exist already.

        Once a step has been built, the devices of the nodes are checked, as at the start of each
        step in TensorFlow.

        Raises:
            FailedPreconditionError: the session was created with `optimize_for_static_graph`.
            AlreadyExistsError: a node of the same name exists.
            InvalidArgumentError: a node requests a device that does not exist.
        """
        self._check_extendable()
        if self._base is not None:
            self._base.check_requests(nodes)
        library = self.graph.library
        merged = library.copy()
        for name in source.library:
            merged.add(source.library.get(name))
        merged.gradients.update(source.library.gradients)
        merged.large_tensors.update(source.library.large_tensors)
        self.graph.library = merged
        try:
            self.graph.add_copies(nodes)
        except BaseException:
            self.graph.library = library
            raise
        self.graph.versions = source.versions

    def freeze(self) -> None:
        """Reject further extensions if the session has `optimize_for_static_graph`."""
        self._frozen = self._is_static

    def build_client_graph(
        self,
        feeds: Sequence[str],
        fetches: Sequence[str],
        targets: Sequence[str],
        client_end: ClientEnd | None = None,
        rewrites: CallableRewrites | None = None,
        watches: Sequence[DebugTensorWatch] = (),
    ) -> ClientGraph:
        """Return the pruned and rewritten graph of a signature, after phase `PRE_PLACEMENT`.

        Feeds, fetches and targets may also name nodes inside functions (`call/node`). Calls are
        inlined here if `watches` may apply to nodes inside them.

        Raises:
            NotFoundError: a feed, fetch or target does not exist.
            UnimplementedError: one is inside a loop, a branch or a call that is not inlined.
            InvalidArgumentError: a node of the full graph cannot be placed, or a function that a
                node calls takes or returns other types than the node declares.
            OpError: a pass failed.
        """
        graph = self.graph
        names = feeds, fetches, targets
        named = {parse_tensor_name(name)[0] for name in (*feeds, *fetches, *targets)}
        if not all(map(graph.has_node, named)):
            from graphmill.lowering.functions.inner_nodes import with_inner_nodes  # few steps

            graph = with_inner_nodes(graph, named, self._options)
        client = build_client_graph(graph, self._ops, *names, client_end, rewrites)
        if self._base is not None:
            self._base.check(self.graph, client.graph)
        calls = [node for node in client.graph.nodes if node.op_def.calls]
        if calls:
            from graphmill.graph.functions.call_types import check_call_types

            check_call_types(calls, client.graph.library)
        watched = {watch.node_name for watch in watches}
        if not all(map(self.graph.has_node, watched)):
            from graphmill.lowering.functions.inner_nodes import inline_calls

            inline_calls(client.graph, watched, self._options)
        run_passes("PRE_PLACEMENT", client.graph, self._options)
        return client

    def to_graph_def(self) -> proto.GraphDef:
        """Return the full graph as a message."""
        return graph_to_graph_def(self.graph)

    def _check_extendable(self) -> None:
        if self._frozen:
            raise FailedPreconditionError(
                "the session was created with optimize_for_static_graph, so its graph cannot be "
                "extended after the first step; omit that option, or create a new session"
            )
