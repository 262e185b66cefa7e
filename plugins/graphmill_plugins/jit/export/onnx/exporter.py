"""The exporter `onnx`: a graph as an ONNX model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import InvalidArgumentError, UnimplementedError
from graphmill.spi import files
from graphmill.spi.graphs import is_result
from graphmill_plugins.jit.export.input_shapes import input_shape
from graphmill_plugins.jit.export.onnx.body_converter import BodyConverter
from graphmill_plugins.jit.export.onnx.element_types import onnx_type
from graphmill_plugins.jit.export.onnx.errors import NotConvertible
from graphmill_plugins.jit.export.onnx.graph_writer import OPSET, GraphWriter
from graphmill_plugins.jit.functionalize import functionalize

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphmill.dtypes import DType
    from graphmill.spi.compilers import ExportGraph, ExportInput

    Shape = tuple[int, ...] | None

_IR_VERSION: Final = 8  # of ONNX 1.13, which has opset 18
_LIMIT: Final = 1 << 31  # of a message of protobuf


@dataclass(frozen=True, slots=True)
class OnnxModel:
    """An ONNX model.

    Attributes:
        message: the `onnx.ModelProto`.
        inputs: the names of the inputs in their order.
        outputs: the names of the outputs in their order.
    """

    message: Any
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def save(self, path: str) -> list[str]:
        """Write the model, and return the path of the file in a list.

        Args:
            path: a file if it ends in `.onnx`, else a folder, which gets the file `model.onnx`. An
                old file stays until the new one is complete.

        Raises:
            OpError: the file cannot be written.
        """
        target = path if path.endswith(".onnx") else files.join(path, "model.onnx")
        files.write(target, self.message.SerializeToString())
        return [target]


def to_onnx(graph: ExportGraph, *, shapes: Mapping[str, Sequence[int]] | None = None) -> OnnxModel:
    """Return a graph as an ONNX model (the exporter `onnx`).

    Variables become constants, calls are inlined, and loops and conditionals of TensorFlow 1
    become `Loop` and `If`. Unknown sizes of inputs, such as that of a batch, stay unknown.

    Args:
        graph: the graph, which is changed.
        shapes: the static shapes of inputs; others keep their unknown sizes.

    Raises:
        InvalidArgumentError: a shape does not fit the input, or the model is larger than 2 GiB.
        UnimplementedError: nodes cannot be held, with a list of all of them; or `onnx` is not
            installed.
    """
    onnx = _module()
    ports = _fixed(graph.inputs, shapes or {})
    refusals = graph.freeze()
    results = list(filter(is_result, graph.body.graph.nodes))
    records = functionalize(graph.body.graph, lambda _: None, results, host=graph.host)
    refusals += [
        f"{record.kind} {record.name}: {record.outcome}"
        for record in records
        if not record.is_functionalized
    ]
    writer = GraphWriter()
    names = [writer.unique(_port_name(port.name)) for port in ports]
    outputs = [writer.unique(_port_name(name)) for name in graph.outputs]
    converter = BodyConverter(writer, graph.host.conversions("onnx").find, graph.host)
    found, found_shapes = converter.convert(graph.body, names, [port.shape for port in ports])
    refusals += [f"{node}: {reason}" for node, reason in converter.refusals.items()]
    refusals += [
        f"input {port.name}: its rank is unknown; give it a shape"
        for port in ports
        if port.shape is None
    ]
    refusals += _unknown_types(ports, zip(graph.outputs, graph.body.ret_types, strict=True))
    if refusals:
        raise _refused(refusals)
    _check_size(writer)
    helper = onnx.helper
    for name, output in zip(found, outputs, strict=True):
        writer.nodes.append(helper.make_node("Identity", [name], [output], name=output))
    message = helper.make_model(
        helper.make_graph(
            writer.nodes,
            "graphmill",
            [
                writer.value_info(name, onnx_type(port.dtype), _sizes(name, port.shape, ports))
                for name, port in zip(names, ports, strict=True)
            ],
            [
                writer.value_info(name, onnx_type(dtype), _sizes(name, shape, ports))
                for name, dtype, shape in zip(
                    outputs, graph.body.ret_types, found_shapes, strict=True
                )
            ],
            writer.used_initializers(),
        ),
        producer_name="graphmill",
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=_IR_VERSION,
    )
    return OnnxModel(_checked(onnx, message), tuple(names), tuple(outputs))


def _module() -> Any:
    try:
        import onnx
    except ImportError as error:
        raise UnimplementedError(
            "models are written with the package onnx, which is not installed; "
            "run: pip install graphmill[onnx]"
        ) from error
    return onnx


def _fixed(
    ports: Sequence[ExportInput], shapes: Mapping[str, Sequence[int]]
) -> tuple[ExportInput, ...]:
    for name in sorted(shapes.keys() - {port.name for port in ports}):
        raise InvalidArgumentError(f"a shape is given, but there is no input {name!r}")
    return tuple(
        replace(port, shape=input_shape(port, shapes[port.name])) if port.name in shapes else port
        for port in ports
    )


def _unknown_types(ports: Sequence[ExportInput], results: Any) -> list[str]:
    """Return a line for each input and output whose element type ONNX lacks."""
    typed: list[tuple[str, DType]] = [(f"input {port.name}", port.dtype) for port in ports]
    typed += [(f"output {name}", dtype) for name, dtype in results]
    lines = []
    for name, dtype in typed:
        try:
            onnx_type(dtype)
        except NotConvertible as reason:
            lines.append(f"{name}: {reason}")
    return lines


def _port_name(name: str) -> str:
    return name.removesuffix(":0")


def _sizes(name: str, shape: Shape, ports: Sequence[ExportInput]) -> list[int | str] | None:
    """Return a shape whose unknown sizes are names; those of the first axis share one name."""
    if shape is None:
        return None
    unknown = [port for port in ports if port.shape and port.shape[0] < 0]
    is_batch = len(unknown) == 1
    return [
        size if size >= 0 else "batch" if axis == 0 and is_batch else f"{name}_{axis}"
        for axis, size in enumerate(shape)
    ]


def _check_size(writer: GraphWriter) -> None:
    """Raise before constants are written into a message that protobuf cannot serialize."""
    size = sum(value.nbytes for value in writer.constants.values())
    if size >= _LIMIT:
        raise InvalidArgumentError(
            f"the constants have {size} bytes, but an ONNX file must have less than {_LIMIT}"
        )


def _checked(onnx: Any, message: Any) -> Any:
    """Check a model by ONNX's own checker, and return it with the ranks that ONNX can infer.

    ONNX asks for the rank of each output. The rank of what a loop returns may be unknown; then the
    output is declared without a shape, which runtimes accept and the checker does not.
    """
    if not all(map(_has_rank, message.graph.output)):
        inferred = onnx.shape_inference.infer_shapes(message)
        message.graph.ClearField("output")
        message.graph.output.extend(inferred.graph.output)
    checked = onnx.ModelProto()
    checked.CopyFrom(message)
    for port in checked.graph.output:
        port.type.tensor_type.shape.SetInParent()
    onnx.checker.check_model(checked)
    return message


def _has_rank(port: Any) -> bool:
    return bool(port.type.tensor_type.HasField("shape"))


def _refused(refusals: Sequence[str]) -> UnimplementedError:
    lines = list(dict.fromkeys(refusals))
    count = "1 node" if len(lines) == 1 else f"{len(lines)} nodes"
    listed = "\n".join(f"  {reason}" for reason in lines)
    return UnimplementedError(f"ONNX cannot hold {count}:\n{listed}")
