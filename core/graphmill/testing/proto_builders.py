"""Build NodeDefs, FunctionDefs and GraphDefs concisely, valid or not.

    graph_def(
        node_def("x", "Placeholder", dtype="float32"),
        node_def("y", "Neg", "x", T="float32"),
    )

The functions check nothing and add no defaults, so tests can build invalid messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import proto
from graphmill.dtypes import as_dtype
from graphmill.ops.attrs.attr_types import TensorAttr
from graphmill.ops.attrs.attr_value import attr_to_proto

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def node_def(name: str, op: str, *inputs: str, device: str = "", **attrs: Any) -> Any:
    """Make a NodeDef.

    Args:
        name: the node's name.
        op: its op.
        inputs: its inputs as written in GraphDefs.
        device: its requested device.
        attrs: its attrs. A `str` names an element type, `bytes` are a string, an array is a tensor,
            and a list is a list of these. An `AttrValue` is used unchanged. Any other value is in
            canonical form.
    """
    message: proto.NodeDef = proto.NodeDef(name=name, op=op, input=inputs, device=device)
    for key, value in attrs.items():
        if isinstance(value, proto.AttrValue):
            message.attr[key].CopyFrom(value)
        else:
            attr_to_proto(_canonical(value), message.attr[key])
    return message


def const_def(name: str, value: Any, dtype: str | None = None) -> Any:
    """Make the NodeDef of a Const; Python numbers become float32 and int32 tensors."""
    array = np.asarray(value)
    if not isinstance(value, (np.ndarray, np.generic)) and array.dtype.kind in "fi":
        array = array.astype(np.float32 if array.dtype.kind == "f" else np.int32)
    content = TensorAttr(array, None if dtype is None else as_dtype(dtype))
    return node_def(name, "Const", dtype=content.dtype, value=content)


def graph_def(*nodes: Any, functions: Iterable[Any] = (), producer: int = 1395) -> Any:
    """Make a GraphDef of NodeDefs and FunctionDefs."""
    message = proto.GraphDef(node=nodes)
    message.versions.producer = producer
    message.library.function.extend(functions)
    return message


def function_def(
    name: str, args: Mapping[str, str], results: Mapping[str, tuple[str, str]], *nodes: Any
) -> Any:
    """Make a FunctionDef.

    Args:
        name: its name.
        args: element types of its arguments by name.
        results: (element type, source such as `"node:output:0"`) of its results by name.
        nodes: the NodeDefs of its body.
    """
    message: proto.FunctionDef = proto.FunctionDef(node_def=nodes)
    message.signature.name = name
    for arg, dtype in args.items():
        message.signature.input_arg.add(name=arg, type=as_dtype(dtype).enum)
    for result, (dtype, source) in results.items():
        message.signature.output_arg.add(name=result, type=as_dtype(dtype).enum)
        message.ret[result] = source
    return message


def _canonical(value: Any) -> Any:
    if isinstance(value, str):
        return as_dtype(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return TensorAttr(np.asarray(value))
    if isinstance(value, list):
        return tuple(map(_canonical, value))
    return value
