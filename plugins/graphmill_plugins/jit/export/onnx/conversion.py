"""`NodeConversion`: the inputs of a node's conversion, and the methods that write ONNX nodes.

    def halve(node: NodeConversion) -> str:
        return node.emit("Div", node.inputs[0], node.constant(2, like=0))

A conversion is registered for an op with the hook `graphmill_register_conversions`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from graphmill_plugins.jit.export.onnx.element_types import onnx_type
from graphmill_plugins.jit.export.onnx.errors import NotConvertible
from graphmill_plugins.jit.export.onnx.graph_writer import GraphWriter, ListTensor

if TYPE_CHECKING:
    from graphmill.dtypes import DType
    from graphmill.spi import Node

    Array = np.ndarray[Any, Any]
    Shape = tuple[int, ...] | None

Conversion = Callable[["NodeConversion"], "str | Sequence[str]"]
"""Writes the nodes for a node, and returns the names of its outputs."""


class NodeConversion:
    """One node while it is converted.

    Attributes:
        node: the node.
        inputs: the names of its inputs in the ONNX model.
        input_shapes, output_shapes: static shapes: sizes with -1 for unknown ones, or None.
    """

    def __init__(
        self,
        writer: GraphWriter,
        node: Node,
        inputs: Sequence[str],
        input_shapes: Sequence[Shape],
        output_shapes: Sequence[Shape],
    ) -> None:
        self._writer = writer
        self.node = node
        self.inputs = list(inputs)
        self.input_shapes = list(input_shapes)
        self.output_shapes = list(output_shapes)

    def attr(self, name: str) -> Any:
        """Return an attr; strings are text."""
        value = self.node.attrs[name]
        return value.decode() if isinstance(value, bytes) else value

    def dtype(self, index: int = 0) -> DType:
        """Return the element type of an input."""
        return self.node.input_types[index].base_dtype

    def output_dtype(self, index: int = 0) -> DType:
        """Return the element type of an output."""
        return self.node.output_types[index].base_dtype

    def rank(self, index: int = 0) -> int:
        """Return the rank of an input.

        Raises:
            NotConvertible: it is unknown.
        """
        shape = self.input_shapes[index]
        if shape is None:
            self.refuse(f"the rank of its input {index} is unknown")
        return len(shape)

    def size(self, index: int, axis: int) -> int:
        """Return a size of an input.

        Raises:
            NotConvertible: it is unknown.
        """
        shape = self.input_shapes[index]
        if shape is None or shape[axis] < 0:
            self.refuse(f"size {axis} of its input {index} is unknown")
        return shape[axis]

    def static(self, index: int) -> Array | None:
        """Return the value of an input that is the same in each run, or None."""
        return self._writer.constants.get(self.inputs[index])

    def value(self, index: int, meaning: str) -> Array:
        """Return the value of an input that must be the same in each run.

        Raises:
            NotConvertible: it is not.
        """
        value = self.static(index)
        if value is None:
            self.refuse(f"{meaning} (input {index}) is not constant, which ONNX needs")
        return value

    def emit(self, op: str, *inputs: str, **attrs: Any) -> str:
        """Write a node with one output, and return the name of the output."""
        return self.emit_many(op, inputs, 1, **attrs)[0]

    def emit_many(self, op: str, inputs: Sequence[str], count: int, **attrs: Any) -> list[str]:
        """Write a node with several outputs, and return their names."""
        return list(self._writer.emit(op, inputs, [self.node.name] * count, **attrs))

    def constant(self, value: Any, *, like: int | None = None) -> str:
        """Return the name of a constant.

        Args:
            value: an array; or a number, with `like`.
            like: the input whose element type it gets.
        """
        if like is None:
            return self._writer.constant(value)
        return self._writer.constant(np.asarray(value, self.dtype(like).as_numpy_dtype))

    def sizes(self, *values: int) -> str:
        """Return the name of an int64 constant, the type of shapes and axes in ONNX."""
        return self._writer.constant(np.asarray(values, np.int64))

    def cast(self, name: str, dtype: DType) -> str:
        """Write a conversion to an element type."""
        return self.emit("Cast", name, to=onnx_type(dtype))

    def as_sizes(self, index: int) -> str:
        """Return an input of integers as a vector of int64, as ONNX takes shapes and axes."""
        value = self.static(index)
        if value is not None:
            return self._writer.constant(np.asarray(value, np.int64).reshape(-1))
        name = self.inputs[index]
        if self.dtype(index).name != "int64":
            name = self.emit("Cast", name, to=7)
        if self.input_shapes[index] is not None and self.rank(index) == 1:
            return name
        return self.emit("Reshape", name, self.sizes(-1))

    def reshape(self, name: str, *shape: int) -> str:
        """Write a reshape to constant sizes; one may be -1."""
        return self.emit("Reshape", name, self.sizes(*shape))

    def list_of(
        self, rows: str, dtype: DType, *, has_rank: bool = True, grows: bool = False
    ) -> str:
        """Note that a tensor stands for a list with elements of a type, and return its name.

        Args:
            rows: the tensor.
            dtype: the element type.
            has_rank: whether its rows have the rank of an element already.
            grows: whether a write after the last row adds rows.
        """
        self._writer.lists[rows] = ListTensor(onnx_type(dtype), has_rank, grows)
        return rows

    def same_list(self, old: str, new: str) -> str:
        """Note that a tensor stands for a list like another one, and return its name."""
        self._writer.lists[new] = self._writer.lists[old]
        return new

    def list_tensor(self, rows: str) -> ListTensor:
        """Return the known properties of the list that a tensor represents."""
        return self._writer.lists[rows]

    def transpose(self, name: str, order: Sequence[int]) -> str:
        """Write a transposition, unless it changes nothing."""
        if list(order) == list(range(len(order))):
            return name
        return self.emit("Transpose", name, perm=[int(axis) for axis in order])

    def axis(self, value: Any, rank: int) -> int:
        """Return an axis as a non-negative index."""
        number = int(value)
        return number + rank if number < 0 else number

    def refuse(self, reason: str) -> NoReturn:
        """Raise NotConvertible."""
        raise NotConvertible(reason)


def table() -> tuple[dict[str, Conversion], Callable[..., Callable[[Conversion], Conversion]]]:
    """Return a dict of conversions by op, and the decorator that adds to it.

    CONVERSIONS, converts = table()

    @converts("Relu", "Relu6")
    """
    conversions: dict[str, Conversion] = {}

    def converts(*ops: str) -> Callable[[Conversion], Conversion]:
        def add(function: Conversion) -> Conversion:
            conversions.update(dict.fromkeys(ops, function))
            return function

        return add

    return conversions, converts
