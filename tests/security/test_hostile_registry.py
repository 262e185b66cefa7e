"""Each op of the registry with an effect and without a kernel is refused for its effect.

The graphs are made from the definitions of the ops, so an op that is added needs no line here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import graphmill
from graphmill import dtypes, errors, proto
from graphmill.ops.attrs.attr_types import FuncAttr, ShapeAttr
from graphmill.ops.attrs.attr_value import attr_to_proto
from graphmill.ops.definition.effects import effects_of

if TYPE_CHECKING:
    from graphmill.dtypes import DType
    from graphmill.ops.definition.op_def import AttrDef

OUTSIDE: Final = frozenset({"fs.read", "fs.write", "net", "process", "python"})
_OPS: Final = graphmill.default_host().ops
_KERNELS: Final = frozenset(graphmill.default_host().kernels.ops())
WITH_EFFECTS: Final = sorted(
    name for name in _OPS.names() if OUTSIDE & (effects_of(_OPS.get(name)) or frozenset())
)
WITHOUT_KERNEL: Final = [name for name in WITH_EFFECTS if name not in _KERNELS]
_CONFIG: Final = {"graphmill": {"jit": "off"}}


PLACES: Final = ("the graph", "a function")


def _value(attr: AttrDef, path: str) -> Any:
    """Return a value for an attr; a text is a path."""
    number = max(1, attr.minimum or 0)
    values = {
        "type": dtypes.float32,
        "int": number,
        "float": 1.0,
        "bool": False,
        "string": path.encode(),
        "shape": ShapeAttr(()),
        "func": FuncAttr("same", {}),
        "tensor": np.float32(1),
    }
    kind = attr.type.removeprefix("list(").removesuffix(")")
    value = attr.allowed[0] if attr.allowed else values[kind]
    return (value,) * number if attr.type.startswith("list(") else value


def _add_input(nodes: Any, name: str, dtype: DType, is_ref: bool, value: Any) -> str:
    """Add nodes with an input of a type; a text is the value, and a dataset holds it."""
    if dtype is dtypes.variant:
        _add_input(nodes, f"{name}_element", dtypes.string, False, value)
        node = nodes.add(name=name, op="TensorDataset", input=[f"{name}_element"])
        attr_to_proto((dtypes.string,), node.attr["Toutput_types"])
        attr_to_proto((ShapeAttr(np.shape(value)),), node.attr["output_shapes"])
        return name
    if is_ref or dtype is dtypes.resource:
        node = nodes.add(name=name, op="VariableV2" if is_ref else "VarHandleOp")
        kind = dtypes.float32 if dtype is dtypes.resource else dtype.base_dtype
        attr_to_proto(kind, node.attr["dtype"])
        attr_to_proto(ShapeAttr(()), node.attr["shape"])
        return name
    node = nodes.add(name=name, op="Const")
    array = value if dtype is dtypes.string else np.ones(np.shape(value), dtype.as_numpy_dtype)
    attr_to_proto(dtype, node.attr["dtype"])
    attr_to_proto(array, node.attr["value"])
    return name


def graph_with(op: str, path: str, place: str) -> proto.GraphDef:
    """Return a graph with a node `y` of an op, whose texts are a path."""
    op_def = _OPS.get(op)
    attrs = {
        attr.name: attr.default if attr.has_default else _value(attr, path) for attr in op_def.attrs
    }
    graph = proto.GraphDef()
    graph.versions.producer = min(1700, (op_def.deprecated_version or 1701) - 1)
    same = graph.library.function.add()
    same.signature.name = "same"
    nodes = graph.node
    if place == "a function":
        function = graph.library.function.add()
        function.signature.name = "act"
        function.signature.is_stateful = True
        function.signature.control_output.append("done")
        function.control_ret["done"] = "y"
        nodes = function.node_def
        call = graph.node.add(name="y", op="StatefulPartitionedCall")
        call.attr["f"].func.name = "act"
        call.attr["Tin"].list.SetInParent()
        call.attr["Tout"].list.SetInParent()
    value = np.array(path.encode(), object)
    arguments = [(a.is_ref, dtype) for a in op_def.input_args for dtype in a.types(attrs)]
    inputs = [
        _add_input(nodes, f"i{index}", dtype, is_ref, value)
        for index, (is_ref, dtype) in enumerate(arguments)
    ]
    if place == "a function":
        inputs = [f"{name}:{_output(nodes, name)}:0" for name in inputs]
        for node in nodes:
            node.input[:] = [f"{name}:output:0" for name in node.input]
    node = nodes.add(name="y", op=op, input=inputs)
    for name, attr in attrs.items():
        attr_to_proto(attr, node.attr[name])
    return graph


def _output(nodes: Any, name: str) -> str:
    """Return the name of the only output of a node in a function."""
    op = next(node.op for node in nodes if node.name == name)
    return _OPS.get(op).output_args[0].name


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("op", WITHOUT_KERNEL)
def test_op_without_a_kernel_is_refused_for_its_effect(op: str, place: str) -> None:
    graph = graph_with(op, "/x", place)
    with (
        graphmill.Session(graph=graph, config=_CONFIG, trust=False) as session,
        pytest.raises(errors.PermissionDeniedError, match=f"the op {op} may") as caught,
    ):
        session.run([], targets=["y"])
    assert (caught.value.op_type, caught.value.node.rpartition("/")[2]) == (op, "y")
    assert "allow" in caught.value.message
