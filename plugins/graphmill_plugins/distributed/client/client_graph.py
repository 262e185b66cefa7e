"""`ClientGraph`: a remote session's graph, and the part that the server already has."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from graphmill.errors import FailedPreconditionError
from graphmill.spi import Graph
from graphmill.spi.cluster import (
    extend_graph,
    feed_converter,
    find_node,
    find_tensor,
    graph_to_graph_def,
    inferred_shape,
    output_type,
    set_failed_operation,
    static_shape,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from graphmill.dtypes import DType
    from graphmill.errors import OpError
    from graphmill.spi import Value
    from graphmill.spi.graphs import OpRegistry
    from graphmill.spi.protos import GraphDef, proto

    Converter = Callable[[Any], Value]


class ClientGraph:
    """The nodes of a session, those not yet sent, and the types of feeds.

    Threads: `_lock` guards the graph while it grows.

    Attributes:
        graph: all nodes.
    """

    def __init__(self, ops: OpRegistry) -> None:
        self.graph = Graph()
        self._ops = ops
        self._lock = threading.RLock()
        self._sent_nodes = self.graph.num_node_ids
        self._sent_functions: set[str] = set()
        self._source: Graph | None = None
        self._source_size = 0
        self._source_edits = 0

    @property
    def has_grown(self) -> bool:
        """Whether there are nodes or functions that the server does not have."""
        return self.graph.num_node_ids != self._sent_nodes or len(self.graph.library) != len(
            self._sent_functions
        )

    def extend(
        self, graph_def: GraphDef, large_tensors: Mapping[tuple[str, str, str], Any] | None
    ) -> None:
        """Add the nodes of a GraphDef; on an error the graph is unchanged.

        Raises:
            OpError: the graph is malformed, or a name is taken.
        """
        with self._lock:
            extend_graph(self.graph, graph_def, self._ops, large_tensors)

    def follow(self, source: Graph, num_taken: int = 0) -> None:
        """Add the nodes of a graph object, now and whenever `sync` is called.

        Args:
            source: the graph object.
            num_taken: the number of its node ids that are here already.
        """
        with self._lock:
            self._source, self._source_size = source, num_taken
            self._source_edits = source.edit_count
            self.sync()

    def sync(self) -> None:
        """Add the nodes that the followed graph object has gained.

        Raises:
            FailedPreconditionError: a node that was there before has been changed since.
        """
        source = self._source
        if source is None or (
            source.num_node_ids == self._source_size and source.edit_count == self._source_edits
        ):
            return
        with self._lock:
            if source.edit_count != self._source_edits:
                raise FailedPreconditionError(
                    "a node of the graph was changed or removed after the session read it; "
                    "sessions only see nodes that are added. Create a new session"
                )
            size = source.num_node_ids
            added = graph_to_graph_def(source, source.nodes_since(self._source_size))
            self.extend(added, None)
            source.mark_taken()
            self._source_size = size

    def unsent(self) -> tuple[GraphDef, Callable[[], None]]:
        """Return the unsent part of the graph, and a function to call when it has been sent."""
        with self._lock:
            size = self.graph.num_node_ids
            message = graph_to_graph_def(self.graph, self.graph.nodes_since(self._sent_nodes))
            functions = set(self.graph.library)
            _drop_functions(message.library, self._sent_functions)

        def mark_sent() -> None:
            self._sent_nodes = size
            self._sent_functions = functions

        return message, mark_sent

    def feed(self, name: str) -> tuple[DType, Converter]:
        """Return the element type of a tensor, and the function that converts a fed value.

        Raises:
            UnknownNameError: there is no such tensor.
        """
        node, output = find_tensor(self.graph, name, "feed")
        dtype = output_type(node, output).base_dtype
        shape = static_shape(node, output, self.graph.versions.producer)
        if shape is None:
            shape = inferred_shape(self._source, node.name, output)
        return dtype, feed_converter(name, dtype, shape)

    def check(self, fetches: Iterable[str], targets: Iterable[str]) -> None:
        """Check that the tensors to fetch and the nodes to run exist.

        Raises:
            UnknownNameError: one does not exist.
        """
        for name in fetches:
            find_tensor(self.graph, name, "fetch")
        for name in targets:
            find_node(self.graph, name, "target")

    def set_operation(
        self, error: OpError, graph_object: Callable[[], Graph | None] | None
    ) -> None:
        """Add to an error of the server the operation that failed, and its type.

        Args:
            error: the error, which is changed.
            graph_object: returns the graph of the `Session`, where none is followed.
        """
        if error.node and self.graph.has_node(error.node):
            error.op_type = error.op_type or self.graph.node(error.node).op
        if self._source is None:
            set_failed_operation(error, self.graph, graph_object)
        else:
            set_failed_operation(error, self._source)


def _drop_functions(library: proto.FunctionDefLibrary, names: set[str]) -> None:
    """Remove functions, and their gradients, from a message."""
    functions = [function for function in library.function if function.signature.name not in names]
    gradients = [gradient for gradient in library.gradient if gradient.function_name not in names]
    library.Clear()
    library.function.extend(functions)
    library.gradient.extend(gradients)
