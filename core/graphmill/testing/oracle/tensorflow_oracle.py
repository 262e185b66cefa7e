"""Run op cases in TensorFlow's `tf.compat.v1.Session`. Needs the `tensorflow-cpu` wheel.

Inputs are fed through placeholders of unknown shape, and graph optimization is off, so the result
comes from the kernel and not from constant folding or shape inference.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.deprecations import renamed_name
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.testing.case_folder import case_folder
from graphmill.testing.case_graph import case_graph
from graphmill.testing.case_inputs import Input, Values, parse_input
from graphmill.testing.golden import CaseResult

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.testing.case import Case

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")  # plain kernels round more predictably


_RUN = "in a run: "


def version() -> str:
    """Return the version of TensorFlow."""
    return f"tensorflow {_tf().__version__}"


def run_case(case: Case, *, timeout_ms: int = 0) -> CaseResult:
    """Run a case in TensorFlow; an error becomes a result with its class name.

    Args:
        case: the case.
        timeout_ms: the timeout of a step; 0 for none.

    Raises:
        Exception: TensorFlow raised it for an invalid case (an unknown op or attr).
    """
    result = _run_case(case, shapes=False, timeout_ms=timeout_ms)
    if result.error and not result.message.startswith(_RUN):
        # Some shape functions reject an input of unknown shape that the kernel would accept.
        return _run_case(case, shapes=True, timeout_ms=timeout_ms)
    return result


def _run_case(case: Case, *, shapes: bool, timeout_ms: int) -> CaseResult:
    tf = _tf()
    if _framework("op_def_registry").get(case.op) is None:
        return CaseResult(
            error="NotFound", message=f"{_RUN}TensorFlow no longer has an op {case.op!r}"
        )
    graph = tf.Graph()
    feeds = _Feeds(shapes)
    with graph.as_default():
        _lower_version(case.op)
        try:
            if case.program is None:
                runs = [_single(case, feeds)]
            else:
                runs = _program(case, feeds)
        except (ValueError, TypeError, tf.errors.OpError) as error:
            return CaseResult(error=_class_name(error), message=str(error))
    with case_folder(case) as folder:
        fed = {key: folder.inside(value) for key, value in feeds.values.items()}
        result = _run(graph, runs, fed, timeout_ms)
        return replace(result, outputs=tuple(folder.outside(v) for v in result.outputs))


class _Feeds:
    """Collect feeds by placeholder."""

    def __init__(self, shapes: bool) -> None:
        self.shapes = shapes
        self.values: dict[Any, Any] = {}


def _lower_version(op: str) -> None:
    """Lower the producer version of the graph, so that it may contain a deprecated op."""
    tf = _tf()
    op_def = _framework("op_def_registry").get(op)
    if op_def.HasField("deprecation"):
        old = tf.compat.v1.GraphDef()
        old.versions.producer = max(op_def.deprecation.version - 1, 0)
        tf.import_graph_def(old, name="")


def session_config() -> Any:
    """Return a ConfigProto that disables graph optimization."""
    tf = _tf()
    config = tf.compat.v1.ConfigProto(
        inter_op_parallelism_threads=1, intra_op_parallelism_threads=1
    )
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    return config


def _tf() -> Any:
    return importlib.import_module("tensorflow")


def _framework(name: str) -> Any:
    return importlib.import_module(f"tensorflow.python.framework.{name}")


def _run(graph: Any, runs: list[list[Any]], feeds: dict[Any, Any], timeout_ms: int) -> CaseResult:
    tf = _tf()
    config = session_config()
    config.operation_timeout_in_ms = timeout_ms
    outputs: list[Values] = []
    dtypes: list[str] = []
    with tf.compat.v1.Session(graph=graph, config=config) as session:
        for fetches in runs:
            try:
                results = session.run(fetches, feeds)
            except tf.errors.OpError as error:
                return CaseResult(error=_class_name(error), message=_RUN + str(error))
            for fetch, result in zip(fetches, results, strict=True):
                if isinstance(fetch, tf.Tensor):
                    outputs.append(_plain(result))
                    dtypes.append(str(fetch.dtype.base_dtype.name))
    return CaseResult(tuple(outputs), tuple(dtypes))


def _class_name(error: Exception) -> str:
    """Return the canonical error class; Python front-end errors are invalid arguments."""
    name = type(error).__name__
    return name.removesuffix("Error") if hasattr(error, "error_code") else "InvalidArgument"


def _plain(value: Any) -> Values:
    """Return a plain array: of bytes objects for strings, of integers for quantized types."""
    # NumPy's fixed-width strings would lose trailing zero bytes.
    array = np.asarray(value, dtype=object if isinstance(value, bytes) else None)
    if array.dtype.fields:
        array = array.view(array.dtype[0])
    if array.dtype.kind in "SUO":
        flat = [x if isinstance(x, bytes) else str(x).encode() for x in array.reshape(-1).tolist()]
        out = np.empty(len(flat), dtype=object)
        out[:] = flat
        return out.reshape(array.shape)
    return array


# ---------------------------------------------------------------------------------------- building


def _single(case: Case, feeds: _Feeds) -> list[Any]:
    inputs: list[Any] = [
        [_placeholder(one, feeds) for one in tree]
        if isinstance(tree, tuple)
        else _placeholder(tree, feeds)
        for tree in case.inputs
    ]
    operation = _apply(case.op, "node", inputs, case.attrs)
    return list(operation.outputs) or [operation]


def _program(case: Case, feeds: _Feeds) -> list[list[Any]]:
    """Import the graph of a program; TensorFlow's own code builds only single ops."""
    tf = _tf()
    parts = case_graph(case, OpRegistry())
    content = parts.graph_def.SerializeToString()
    tf.import_graph_def(tf.compat.v1.GraphDef.FromString(content), name="")
    graph = tf.compat.v1.get_default_graph()
    for name, value in parts.feeds.items():
        feeds.values[graph.get_tensor_by_name(name)] = value
    return [
        [graph.as_graph_element(name) for name in (*fetches, *targets)]
        for fetches, targets in parts.steps
    ]


def _placeholder(value: Input, feeds: _Feeds) -> Any:
    tf = _tf()
    dtype = tf.as_dtype(value.dtype)
    values = value.values()
    shape = values.shape if feeds.shapes else None
    holder = tf.compat.v1.placeholder(dtype, shape=shape)
    if dtype.is_quantized:
        values = values.view(dtype.as_numpy_dtype)
    feeds.values[holder] = values
    return holder


def _apply(op: str, name: str, inputs: list[Any], attrs: Mapping[str, Any]) -> Any:
    """Add one node; TensorFlow's C++ code checks it and adds the defaults."""
    op_def = _framework("op_def_registry").get(op)
    if len(inputs) != len(op_def.input_arg):
        raise KeyError(f"{op} has {len(op_def.input_arg)} inputs, the case has {len(inputs)}")
    kinds = {attr.name: attr.type for attr in op_def.attr}
    values = _inferred(op_def, inputs)
    for key, value in attrs.items():
        if key in kinds:
            values[key] = _attr_value(kinds[key], value)
    flat = [x for tree in inputs for x in (tree if isinstance(tree, list) else [tree])]
    graph = _tf().compat.v1.get_default_graph()
    add = graph._create_op_internal  # noqa: SLF001 - the only way to set attrs by name
    return add(op, flat, name=name, attrs=values, op_def=op_def)


def _inferred(op_def: Any, inputs: list[Any]) -> dict[str, Any]:
    """Infer type and number attrs from the inputs, independently of graphmill's code."""
    attr_value = _tf().compat.v1.AttrValue
    values: dict[str, Any] = {}
    for arg, input_ in zip(op_def.input_arg, inputs, strict=True):
        tensors = input_ if isinstance(input_, list) else [input_]
        types = [tensor.dtype.base_dtype.as_datatype_enum for tensor in tensors]
        if arg.number_attr:
            values[arg.number_attr] = attr_value(i=len(tensors))
        if arg.type_list_attr:
            values[arg.type_list_attr] = attr_value(list=attr_value.ListValue(type=types))
        elif arg.type_attr and types:
            values.setdefault(arg.type_attr, attr_value(type=types[0]))
    return values


def _attr_value(kind: str, value: Any) -> Any:
    attr_value = _tf().compat.v1.AttrValue
    if kind.startswith("list("):
        field = _FIELDS[kind[5:-1]]
        items = [_attr_item(kind[5:-1], item) for item in value]
        return attr_value(list=attr_value.ListValue(**{field: items}))
    return attr_value(**{_FIELDS[kind]: _attr_item(kind, value)})


def _attr_item(kind: str, value: Any) -> Any:
    tf = _tf()
    if kind == "type":
        return tf.as_dtype(value).as_datatype_enum
    if kind == "shape":
        return tf.TensorShape(
            None if value == "unknown" else [None if d < 0 else d for d in value]
        ).as_proto()
    if kind == "tensor":
        tensor = parse_input(value, {}, "attr")
        return tf.make_tensor_proto(tensor.values(), dtype=tf.as_dtype(tensor.dtype))
    if kind == "string":
        return value if isinstance(value, bytes) else value.encode()
    return value


_FIELDS = {
    "type": "type",
    "shape": "shape",
    "tensor": "tensor",
    "string": "s",
    "int": "i",
    "float": "f",
    "bool": "b",
}


def __getattr__(name: str) -> Any:
    """Resolve old names of this module."""
    return renamed_name(__name__, name)
