"""`FrozenModel`: a graph without variables, and its signatures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphmill import files, proto
from graphmill.errors import InvalidArgumentError
from graphmill.graph.builder import Graph

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from graphmill.plugin.host import Host

    AnyPath = str | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class FrozenModel:
    """A graph whose variables are constants.

    Attributes:
        graph_def: the graph. Readers of a table wait for the node that fills it, so that the graph
            needs no initializer.
        signatures: the `SignatureDef`s by key.
        table_initializers: the names of the nodes that fill tables.
        host: where the ops come from.
    """

    graph_def: proto.GraphDef
    signatures: Mapping[str, proto.SignatureDef]
    table_initializers: tuple[str, ...]
    host: Host

    def __repr__(self) -> str:
        return f"<FrozenModel of {len(self.graph_def.node)} nodes: {', '.join(self.signatures)}>"

    def write(self, path: AnyPath) -> str:
        """Write the graph as a GraphDef, and return its path; an old file is replaced at the end.

        Args:
            path: the file; it is text if its name ends in `.pbtxt`.

        Raises:
            InvalidArgumentError: the graph is larger than a message may be (2 GiB).
            OpError: the file cannot be written; an old file stays.
        """
        target = files.as_path(path)
        if target.endswith(".pbtxt"):
            from google.protobuf import text_format  # few programs write text

            files.write(target, text_format.MessageToString(self.graph_def).encode())
        else:
            files.write(target, self._content())
        return target

    def save(self, folder: AnyPath) -> str:
        """Write a SavedModel without variables, and return its folder.

        Args:
            folder: the folder, which must not exist.

        Raises:
            AlreadyExistsError: the folder exists.
            InvalidArgumentError: there are no signatures.
            OpError: a file cannot be written; nothing remains.
        """
        from graphmill.graph.dependencies import group
        from graphmill.saved.saved_model_writer import save
        from graphmill.session.session import Session

        if not self.signatures:
            raise InvalidArgumentError(
                "a SavedModel needs a signature, and the graph has no output"
            )
        graph = Graph.from_graph_def(self.graph_def, self.host.ops)
        init = None
        if self.table_initializers:
            nodes = [graph.node(name) for name in self.table_initializers]
            with graph.as_default():
                init = group(*nodes, name="fill_tables")
        with Session(graph=graph, host=self.host) as session:
            return save(session, folder, self.signatures, main_op=init)

    def _content(self) -> bytes:
        from google.protobuf.message import EncodeError

        try:
            return self.graph_def.SerializeToString()
        except (EncodeError, ValueError) as error:  # protobuf's own limit
            raise InvalidArgumentError(
                f"the frozen graph does not fit into a message: {error}; keep its variables in a "
                "SavedModel instead"
            ) from error
