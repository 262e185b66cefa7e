"""`ServedModel`: a model of any format with its session, in the isolated process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from graphmill import dtypes, proto, saved_model
from graphmill.errors import InvalidArgumentError
from graphmill.graph.formats.model_file import open_model
from graphmill.graph.formats.model_format import Kind
from graphmill.models.summary import summarize_graph
from graphmill.saved.meta_graph_checkpoint import restore_checkpoint_beside
from graphmill.session.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.models.summary import Port

GRAPH_SIGNATURE: Final = "__graphmill_graph"
"""Key of the placeholders and last tensors of a GraphDef or MetaGraphDef, as a signature."""


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that is ready to run.

    Attributes:
        session: its session.
        meta_graph: its tags and signatures; the graph stays here. The inputs and outputs of a
            GraphDef are the signature `GRAPH_SIGNATURE`.
        close: closes session and files.
    """

    session: Session
    meta_graph: proto.MetaGraphDef
    close: Callable[[], None]


def open_served_model(
    path: str, tags: Sequence[str] | None, config: proto.ConfigProto
) -> ServedModel:
    """Load a SavedModel, GraphDef or MetaGraphDef, the latter with the checkpoint beside it.

    Raises:
        OpError: it is not a model, has no such tags, or cannot be loaded.
    """
    opened = open_model(path)
    kind = opened.kind
    if kind is Kind.SAVED_MODEL:
        opened.close()
        model = saved_model.load(path, tags, config)
        return ServedModel(model.session, _described(model.meta_graph), model.close)
    try:
        if tags is not None:
            raise InvalidArgumentError(f"{path} is a {kind.value}, which has no tags to choose")
        is_meta_graph = kind is Kind.META_GRAPH_DEF
        loaded = opened.meta_graph() if is_meta_graph else None
        session = Session(graph=path, config=config)
        meta_graph = proto.MetaGraphDef() if loaded is None else loaded.meta_graph_def
        described = _described(meta_graph)
        graph = opened.graph() if loaded is None else loaded.graph
        summary = summarize_graph(graph, session.host.ops)
        _add_ports(described, summary.inputs, summary.outputs)
    finally:
        opened.close()
    if is_meta_graph:
        restore_checkpoint_beside(session, path, meta_graph.saver_def)
    return ServedModel(session, described, session.close)


def _described(meta_graph: proto.MetaGraphDef) -> proto.MetaGraphDef:
    """Return tags and signatures of a model."""
    described = proto.MetaGraphDef()
    described.meta_info_def.tags.extend(meta_graph.meta_info_def.tags)
    described.meta_info_def.tensorflow_version = meta_graph.meta_info_def.tensorflow_version
    for name, signature in meta_graph.signature_def.items():
        described.signature_def[name].CopyFrom(signature)
    return described


def _add_ports(
    described: proto.MetaGraphDef, inputs: Sequence[Port], outputs: Sequence[Port]
) -> None:
    """Add inputs and outputs of a graph as a signature."""
    signature = described.signature_def[GRAPH_SIGNATURE]
    for ports, infos in ((inputs, signature.inputs), (outputs, signature.outputs)):
        for port in ports:
            info = infos[port.name]
            info.name = port.tensor
            if port.dtype:
                number: Any = dtypes.as_dtype(port.dtype).enum  # the stubs want a value of the enum
                info.dtype = number
            info.tensor_shape.unknown_rank = port.shape is None
            for size in port.shape or ():
                info.tensor_shape.dim.add(size=size)
