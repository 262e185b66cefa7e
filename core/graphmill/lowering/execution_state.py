"""`GraphExecutionState`: a session's full graph and the client graphs built from it (rows S3, S4).

Semantics: `tensorflow/core/common_runtime/graph_execution_state.cc`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import FailedPreconditionError
from graphmill.graph.formats.import_export import extend_graph, graph_to_graph_def
from graphmill.graph.graph import Graph
from graphmill.lowering.passes import PassOptions, run_passes
from graphmill.lowering.prune import ClientEnd, ClientGraph, build_client_graph

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphmill import proto
    from graphmill.graph.node import Node
    from graphmill.lowering.callable_options import CallableRewrites
    from graphmill.ops.definition.op_registry import OpRegistry


class GraphExecutionState:
    """The full graph of one session.

    Threads: the session calls it under its graph lock.

    Attributes:
        graph: the full graph.
    """

    def __init__(self, ops: OpRegistry, options: PassOptions, *, is_static: bool) -> None:
        self.graph = Graph()
        self._ops = ops
        self._options = options
        self._is_static = is_static
        self._frozen = False

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

        Raises:
            FailedPreconditionError: the session was created with `optimize_for_static_graph`.
            AlreadyExistsError: a node of the same name exists.
        """
        self._check_extendable()
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
        """Reject extensions from now on if the session has `optimize_for_static_graph`."""
        self._frozen = self._is_static

    def build_client_graph(
        self,
        feeds: Sequence[str],
        fetches: Sequence[str],
        targets: Sequence[str],
        client_end: ClientEnd | None = None,
        form: CallableRewrites | None = None,
    ) -> ClientGraph:
        """Return the pruned and rewritten graph of a signature, after phase `PRE_PLACEMENT`.

        Raises:
            NotFoundError: a feed, fetch or target does not exist.
            OpError: a pass failed.
        """
        names = feeds, fetches, targets
        client = build_client_graph(self.graph, self._ops, *names, client_end, form)
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
