"""Summarize a model from its protos, without building or running it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError, NotFoundError, suggest
from graphmill.graph.node_roles import SCALAR_MEANS_UNKNOWN_BEFORE
from graphmill.inputs.input_spec import InputSpec, show_shape
from graphmill.models.graph_sizes import (
    Size,
    constants_size,
    is_placeholder,
    source_of,
    variables_size,
)
from graphmill.ops.definition.op_traits import Source
from graphmill.saved.internal_signatures import is_internal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from graphmill.graph.formats.model_file import LoadedGraph, LoadedMetaGraph
    from graphmill.ops.definition.op_def import ArgDef
    from graphmill.ops.definition.op_registry import OpRegistry
    from graphmill.proto.graph_pb2 import GraphDef
    from graphmill.proto.meta_graph_pb2 import SignatureDef, TensorInfo
    from graphmill.proto.node_def_pb2 import NodeDef
    from graphmill.proto.tensor_shape_pb2 import TensorShapeProto
    from graphmill.typing import Shape

_RESTORING = ("save/", "save_")  # name prefixes of the ops of a Saver in TensorFlow 1


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output: its name for the user, and its tensor.

    Attributes:
        name: the key in the signature, or the name of the node or tensor.
        tensor: the tensor's name, `"x:0"`; empty for a sparse or composite tensor.
        dtype: the name of its dtype; empty if unknown.
        shape: its static shape.
        has_default: whether an input may be left out, as a `PlaceholderWithDefault`.
    """

    name: str
    tensor: str
    dtype: str
    shape: Shape
    has_default: bool = False

    def spec(self) -> InputSpec:
        """Return the input spec of this port."""
        return InputSpec(self.name, as_dtype(self.dtype) if self.dtype else None, self.shape)

    def as_data(self) -> dict[str, Any]:
        """Return the port as JSON data."""
        shape = None if self.shape is None else list(self.shape)
        data = {"name": self.name, "tensor": self.tensor, "dtype": self.dtype, "shape": shape}
        return data | {"has_default": True} if self.has_default else data


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature: its key, its method name, its inputs and outputs, sorted by name."""

    key: str
    method: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """Contents of a graph: sizes, ops, signatures, inputs and outputs.

    Attributes:
        tags: the tags of its MetaGraph, sorted; empty for a bare graph.
        producer: the version of TensorFlow that wrote it; empty if unknown.
        nodes: the number of nodes, including those in functions.
        functions: the number of functions.
        ops: the number of nodes of each op.
        signatures: its signatures by key, without those that initialize or train the model.
        inputs: the placeholders of the graph.
        outputs: the tensors of the graph that no node consumes.
        variables: the size of its variables.
        used_variables: the size of the variables that the signatures read. A program may save a
            model with copies of its variables, as Keras does.
        constants: the size of its constants.
    """

    tags: tuple[str, ...]
    producer: str
    nodes: int
    functions: int
    ops: Mapping[str, int]
    signatures: Mapping[str, Signature]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...] = field(default=())
    variables: Size = field(default=Size())
    used_variables: Size = field(default=Size())
    constants: Size = field(default=Size())


def summarize_meta_graph(loaded: LoadedMetaGraph, ops: OpRegistry) -> ModelSummary:
    """Summarize a MetaGraph; `ops` are those of the host."""
    meta = loaded.meta_graph_def
    return _contents(
        meta.graph_def,
        ops,
        tags=tuple(sorted(loaded.tags)),
        producer=meta.meta_info_def.tensorflow_version,
        signatures=signatures_of(meta.signature_def),
    )


def summarize_graph(loaded: LoadedGraph, ops: OpRegistry) -> ModelSummary:
    """Summarize a bare graph; `ops` are those of the host."""
    return _contents(loaded.graph_def, ops, tags=(), producer="", signatures={})


def signatures_of(signature_defs: Mapping[str, SignatureDef]) -> dict[str, Signature]:
    """Return the signatures of a MetaGraph by key, sorted; internal ones are left out."""
    return {
        key: Signature(
            key,
            signature_defs[key].method_name,
            tuple(
                _port_of(name, info) for name, info in sorted(signature_defs[key].inputs.items())
            ),
            tuple(
                _port_of(name, info) for name, info in sorted(signature_defs[key].outputs.items())
            ),
        )
        for key in sorted(signature_defs)
        if not is_internal(key)
    }


def port_of_tensor(graph_def: GraphDef, ops: OpRegistry, name: str) -> Port:
    """Return any tensor of a graph as an input: `x:1`, or `x` for the first output of node `x`.

    Raises:
        NotFoundError: the graph has no such node, or the node no such output.
    """
    node_name, _, output = name.partition(":")
    nodes = {node.name: node for node in graph_def.node}
    if node_name not in nodes:
        raise NotFoundError(f"there is no tensor {name!r} in the graph{suggest(node_name, nodes)}")
    tensor = f"{node_name}:{output or 0}"
    node = nodes[node_name]
    if is_placeholder(node.op, ops):
        return replace(_placeholder(node, ops, graph_def.versions.producer), name=name)
    for port in _outputs(node, ops):
        if port.tensor == tensor:
            return replace(port, name=name)
    return Port(name, tensor, "", None)


def choose_signature(signatures: Mapping[str, Signature], key: str | None, model: str) -> Signature:
    """Return the requested signature, or `serving_default`, or the only one.

    Raises:
        NotFoundError: there is no such signature, or none at all.
        InvalidArgumentError: there are several and none was requested.
    """
    present = ", ".join(signatures) or "none"
    if key is not None:
        if key in signatures:
            return signatures[key]
        raise NotFoundError(
            f"{model} has no signature {key!r}{suggest(key, signatures)}; it has: {present}"
        )
    if not signatures:
        error = NotFoundError(f"{model} has no signature to run")
        error.add_note("try: --fetch NAME:0, and give inputs by the names of their tensors")
        raise error
    if "serving_default" in signatures:
        return signatures["serving_default"]
    if len(signatures) == 1:
        return next(iter(signatures.values()))
    raise InvalidArgumentError(f"{model} has several signatures; choose one of: {present}")


def _contents(
    graph_def: GraphDef,
    ops: OpRegistry,
    *,
    tags: tuple[str, ...],
    producer: str,
    signatures: dict[str, Signature],
) -> ModelSummary:
    nodes = list(_all_nodes(graph_def))
    outputs = [port.tensor for one in signatures.values() for port in one.outputs]
    return ModelSummary(
        tags=tags,
        producer=producer,
        nodes=len(nodes),
        functions=len(graph_def.library.function),
        ops=Counter(node.op for node in nodes),
        signatures=signatures,
        inputs=tuple(
            _placeholder(node, ops, graph_def.versions.producer)
            for node in graph_def.node
            if is_placeholder(node.op, ops)
        ),
        outputs=tuple(_unconsumed_outputs(graph_def, ops)),
        variables=variables_size(graph_def, ops),
        used_variables=variables_size(graph_def, ops, outputs),
        constants=constants_size(graph_def, ops),
    )


def _all_nodes(graph_def: GraphDef) -> Iterator[NodeDef]:
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def


def _port_of(name: str, info: TensorInfo) -> Port:
    dtype = as_dtype(info.dtype).name if info.dtype else ""
    return Port(name, info.name, dtype, _shape(info.tensor_shape))


def _placeholder(node: NodeDef, ops: OpRegistry, producer: int) -> Port:
    dtype = as_dtype(node.attr["dtype"].type).name if node.attr["dtype"].type else ""
    shape = _shape(node.attr["shape"].shape) if "shape" in node.attr else None
    if shape == () and 0 < producer < SCALAR_MEANS_UNKNOWN_BEFORE:
        shape = None
    has_default = source_of(node.op, ops) is Source.PLACEHOLDER_WITH_DEFAULT
    return Port(node.name, f"{node.name}:0", dtype, shape, has_default)


def _unconsumed_outputs(graph_def: GraphDef, ops: OpRegistry) -> Iterator[Port]:
    """Yield the outputs of nodes that compute a result and have no consumer."""
    consumed = {name.lstrip("^").split(":")[0] for node in graph_def.node for name in node.input}
    for node in graph_def.node:
        if node.name in consumed or node.name.startswith(_RESTORING):
            continue
        if _has_result(node.op, ops):
            yield from _outputs(node, ops)


def _has_result(op: str, ops: OpRegistry) -> bool:
    """Return whether an op computes something, rather than provide or store a value."""
    op_def = ops.find(op)
    return (
        op_def is not None and not op_def.traits.only_stores and source_of(op, ops) is Source.NONE
    )


def _outputs(node: NodeDef, ops: OpRegistry) -> Iterator[Port]:
    """Yield the outputs of a node, also each of a list."""
    op_def = ops.find(node.op)
    args = op_def.output_args if op_def else ()
    for index, dtype in enumerate(chain.from_iterable(_types(node, arg) for arg in args)):
        tensor = f"{node.name}:{index}"
        yield Port(tensor, tensor, dtype, None)


def _types(node: NodeDef, arg: ArgDef) -> list[str]:
    """Return the types of the tensors of an output; "" if an attr is missing."""
    if arg.type_list_attr:
        return [as_dtype(enum).name for enum in node.attr[arg.type_list_attr].list.type]
    if arg.type is not None:
        name = arg.type.name
    else:
        enum = node.attr[arg.type_attr].type if arg.type_attr in node.attr else 0
        name = as_dtype(enum).name if enum else ""
    return [name] * (node.attr[arg.number_attr].i if arg.number_attr else 1)


def _shape(shape: TensorShapeProto) -> Shape:
    if shape.unknown_rank:
        return None
    return tuple(dim.size for dim in shape.dim)


def show_port(port: Port) -> tuple[str, str, str, str]:
    """Return name, dtype, shape and tensor of a port as text."""
    return port.name, port.dtype or "?", show_shape(port.shape), port.tensor
