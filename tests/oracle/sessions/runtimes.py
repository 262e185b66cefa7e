"""TensorFlow's session API and graphmill's under one interface, for scenarios that run in both."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import numpy as np
from google.protobuf.json_format import ParseDict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


def graph_bytes(nodes: Sequence[str], fed: dict[str, str], functions: Sequence[str] = ()) -> bytes:
    """Return a GraphDef of nodes as in op cases."""
    from graphmill.plugin.host import default_host
    from graphmill.testing.tier_programs import graph_def

    made = graph_def(default_host().ops, tuple(nodes), tuple(functions), fed)
    content: bytes = made.SerializeToString()
    return content


class Runtime:
    """One of the two systems.

    Args:
        api: `tf.compat.v1` or `graphmill`.
        messages: the module with the messages of the configuration.
        import_nodes: adds the nodes of a GraphDef to a graph object.
        server: starts a server of one task and returns it.
    """

    def __init__(self, api: Any, messages: Any, import_nodes: Any, server: Any) -> None:
        self.api = api
        self.messages = messages
        self.import_nodes = import_nodes
        self.server = server

    def graph(
        self, nodes: Sequence[str], fed: dict[str, str] | None = None, functions: Sequence[str] = ()
    ) -> Any:
        """Return a graph object."""
        graph = self.api.Graph()
        self.import_nodes(graph, graph_bytes(nodes, fed or {}, functions))
        return graph

    def message(self, name: str, fields: dict[str, Any]) -> Any:
        """Return a message of the configuration from its JSON form."""
        return ParseDict(fields, getattr(self.messages, name)())

    def session(self, graph: Any, config: dict[str, Any] | None = None, target: str = "") -> Any:
        """Start a session."""
        return self.api.Session(target, graph, self.message("ConfigProto", config or {}))

    @contextlib.contextmanager
    def session_of(
        self, nodes: Sequence[str], config: dict[str, Any], fed: dict[str, str] | None = None
    ) -> Iterator[Any]:
        """Start a session of a new graph, and close it."""
        with self.session(self.graph(nodes, fed), config) as session:
            yield session

    def run(
        self, nodes: Sequence[str], fetches: Any, config: dict[str, Any], **options: Any
    ) -> Any:
        """Run a new graph once; return its values or the error."""

        def run() -> Any:
            with self.session_of(nodes, config) as session:
                run_options = self.message("RunOptions", options) if options else None
                return session.run(fetches, options=run_options)

        return outcome(run)

    def traced(
        self, nodes: Sequence[str], fetches: Any, config: dict[str, Any], options: dict[str, Any]
    ) -> Any:
        """Run a new graph once; return the `RunMetadata`."""
        metadata = self.messages.RunMetadata()
        with self.session_of(nodes, config) as session:
            session.run(fetches, None, self.message("RunOptions", options), metadata)
        return metadata

    def ops_run(
        self,
        nodes: Sequence[str],
        fetch: str,
        config: dict[str, Any],
        fed: dict[str, str] | None = None,
        feeds: dict[str, Any] | None = None,
        functions: Sequence[str] = (),
    ) -> list[str]:
        """Return the ops of the partition graphs of a step."""
        metadata = self.messages.RunMetadata()
        options = self.message("RunOptions", {"output_partition_graphs": True})
        with self.session(self.graph(nodes, fed, functions), config) as session:
            session.run(fetch, feeds, options, metadata)
        return [node.op for part in metadata.partition_graphs for node in part.node]


def outcome(action: Callable[[], Any]) -> Any:
    """Return a value in plain form, or the names of the classes of an exception."""
    try:
        return plain(action())
    except Exception as error:  # noqa: BLE001 - which exception it is gets compared
        return Raised([one.__name__ for one in type(error).__mro__], str(error))


class Raised:
    """An exception, equal to exceptions of the same class or a subclass."""

    def __init__(self, names: list[str], message: str) -> None:
        self.names, self.message = names, message

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Raised):
            return NotImplemented
        return self.names[0] in other.names or other.names[0] in self.names

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{self.names[0]}: {self.message}"


def plain(value: Any) -> Any:
    """Return arrays as nested lists, and other values unchanged."""
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return [str(value.dtype), value.tolist()]
    return value


def tensorflow_runtime(tf: Any) -> Runtime:
    """Return TensorFlow's session API."""
    from tensorflow.core.protobuf import config_pb2

    def import_nodes(graph: Any, content: bytes) -> None:
        with graph.as_default():
            tf.import_graph_def(tf.compat.v1.GraphDef.FromString(content), name="")

    return Runtime(tf.compat.v1, config_pb2, import_nodes, tf.distribute.Server.create_local_server)


def graphmill_runtime() -> Runtime:
    """Return graphmill's session API."""
    import graphmill
    from graphmill import proto
    from graphmill.graph.formats.import_export import extend_graph

    def import_nodes(graph: Any, content: bytes) -> None:
        ops = graphmill.default_host().ops
        extend_graph(graph, proto.GraphDef.FromString(content), ops)

    return Runtime(graphmill, proto, import_nodes, graphmill.Server)
