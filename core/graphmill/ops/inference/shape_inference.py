"""Shape functions: infer output shapes before a graph runs (clause G5).

    def top_shape(op):
        return op.shape("x").with_axis(-1, op.get_attr("k"))

    @graphmill.op("MyPackage>Top", shape=top_shape)
    def top(xp, x: T, *, k: int) -> T: ...

A shape function takes a `ShapeContext`. It returns the shape of the output, or a sequence of shapes
for several outputs. A shape is a `TensorShape`, a sequence of sizes, or None if it is unknown. If
it raises, adding the node fails with this error, which names the node.

The shape functions of TensorFlow's ops are in `graphmill.ops.shapes.<family>`, imported on first
use. Outputs of ops without shape function have an unknown shape. Semantics:
tensorflow/core/framework/shape_inference.h and the shape functions in tensorflow/core/ops/*.cc.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol

from graphmill.errors import InternalError, InvalidArgumentError, OpError
from graphmill.ops.definition.op_registry import same_bundled
from graphmill.ops.inference.tensor_shape import UNKNOWN_SHAPE, TensorShape
from graphmill.registry import function_source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from graphmill.ops.definition.op_def import OpDef

    ShapeFunction = Callable[["ShapeContext"], Any]

_FAMILIES: Final = frozenset(
    {
        *("array", "control_flow", "data_flow", "dataset", "image", "linalg", "math", "nn"),
        *("parsing", "quantized", "ragged", "random", "signal", "sparse", "state", "string"),
        *("tensor_array", "tensor_list", "training", "xla"),
    }
)
"""Families with a module of shape functions."""


class Sources(Protocol):
    """Static information about a node's inputs besides their shapes."""

    def value(self, index: int) -> NDArray[Any] | None:
        """Return the static value of an input, with None for unknown elements."""
        ...

    def variable_shape(self, index: int) -> TensorShape:
        """Return the shape of the variable whose handle an input is."""
        ...


class ShapeContext:
    """The node argument of shape functions.

    Attributes:
        name: name of the node.
        type: name of its op.
        inputs: the shapes of its inputs, in order, with lists flattened.
        num_outputs: number of outputs.
    """

    __slots__ = ("_op_def", "_sources", "attrs", "inputs", "name", "num_outputs")

    def __init__(
        self,
        name: str,
        op_def: OpDef,
        attrs: Mapping[str, Any],
        inputs: Sequence[TensorShape],
        num_outputs: int,
        sources: Sources,
    ) -> None:
        """Describe a node.

        Args:
            name: its name.
            op_def: the definition of its op.
            attrs: its attrs in canonical form.
            inputs: the shapes of its inputs.
            num_outputs: number of outputs.
            sources: static information about the inputs.
        """
        self.name = name
        self.attrs = attrs
        self.inputs = inputs
        self.num_outputs = num_outputs
        self._op_def = op_def
        self._sources = sources

    @property
    def type(self) -> str:
        """Name of the op."""
        return self._op_def.name

    def shape(self, name: str) -> TensorShape:
        """Return the shape of an input by its name in the op's definition.

        Raises:
            InvalidArgumentError: the op has no such input, or it is a list.
        """
        start, stop = self._range(name)
        if stop != start + 1:
            raise InvalidArgumentError(f"input {name!r} is a list; use `shapes({name!r})`")
        return self.inputs[start]

    def shapes(self, name: str) -> list[TensorShape]:
        """Return the shapes of a list input.

        Raises:
            InvalidArgumentError: the op has no such input.
        """
        return list(self.inputs[slice(*self._range(name))])

    def value(self, name: str) -> NDArray[Any] | None:
        """Return the static value of an input, or None if it is not static.

        Constants are static, and integers that are computed from constants and static shapes. The
        latter have element type object.

        Raises:
            InvalidArgumentError: the op has no such input.
        """
        elements = self.partial_value(name)
        return None if elements is None or any(item is None for item in elements.flat) else elements

    def partial_value(self, name: str) -> NDArray[Any] | None:
        """Return the static value of an input, with None for unknown elements."""
        return self._sources.value(self._range(name)[0])

    def variable_shape(self, name: str) -> TensorShape:
        """Return the shape of the variable whose handle an input is.

        Raises:
            InvalidArgumentError: the op has no such input.
        """
        return self._sources.variable_shape(self._range(name)[0])

    def value_as_shape(self, name: str) -> TensorShape:
        """Return the static shape that an input with sizes stands for.

        Raises:
            InvalidArgumentError: the op has no such input, or its value is not a shape.
        """
        sizes = self.partial_value(name)
        self.shape(name).with_rank_at_most(1)
        if sizes is None:
            count = self.shape(name)[0] if self.shape(name).rank == 1 else None
            return UNKNOWN_SHAPE if count is None else TensorShape((None,) * count)
        if sizes.ndim == 0:
            if sizes.item() == -1:
                return UNKNOWN_SHAPE
            raise InvalidArgumentError(f"input {name!r} must be a vector of sizes, not a scalar")
        return TensorShape(sizes.tolist())

    def get_attr(self, name: str) -> Any:
        """Return an attr in canonical form.

        Raises:
            InvalidArgumentError: the node has no attr of that name.
        """
        try:
            return self.attrs[name]
        except KeyError:
            has = ", ".join(sorted(self.attrs)) or "none"
            raise InvalidArgumentError(f"node has no attr {name!r}; it has {has}") from None

    def _range(self, name: str) -> tuple[int, int]:
        ranges = self._op_def.input_ranges(self.attrs)
        try:
            return ranges[name]
        except KeyError:
            has = ", ".join(ranges) or "none"
            raise InvalidArgumentError(f"op has no input {name!r}; it has {has}") from None


def infer_shapes(op: ShapeContext, function: ShapeFunction | None) -> tuple[TensorShape, ...]:
    """Return the shapes of a node's outputs.

    Raises:
        InvalidArgumentError: the shapes of its inputs are invalid.
        InternalError: the shape function is faulty: it raised another exception, or did not return
            shapes.
    """
    if function is None:
        return (UNKNOWN_SHAPE,) * op.num_outputs
    try:
        returned = function(op)
        return _checked(op, returned)
    except OpError as error:
        error.locate(node=op.name, op_type=op.type)
        raise
    except Exception as error:
        raise InternalError(
            f"the shape function {function_source(function)} failed: "
            f"{type(error).__name__}: {error}",
            node=op.name,
            op_type=op.type,
        ) from error


def shape_function(op_def: OpDef) -> ShapeFunction | None:
    """Return the shape function of an op, or the one that its traits imply, or None."""
    if op_def.shape_function is not None:
        return op_def.shape_function
    if same_bundled(op_def) is not None:  # not an op of a plugin with the same name
        function = _family_functions(op_def.family).get(op_def.name)
        if function is not None:
            return function
    from graphmill.ops.shapes.shared.by_traits import function_by_traits  # lazily: rarely needed

    return function_by_traits(op_def)


@cache
def _family_functions(family: str) -> dict[str, ShapeFunction]:
    if family not in _FAMILIES:
        return {}
    module = importlib.import_module(f"graphmill.ops.shapes.{family}")
    return module.SHAPES  # type: ignore[no-any-return]


def _checked(op: ShapeContext, returned: Any) -> tuple[TensorShape, ...]:
    """Return the result of a shape function as a tuple with a shape for each output."""
    if op.num_outputs == 1:
        is_list = isinstance(returned, tuple | list) and len(returned) == 1
        is_list = is_list and isinstance(returned[0], TensorShape)  # not a size
        return (TensorShape(returned[0] if is_list else returned),)
    if not isinstance(returned, tuple | list) or len(returned) != op.num_outputs:
        raise InternalError(
            f"the shape function of an op with {op.num_outputs} outputs returned {returned!r}; "
            f"expected a list of {op.num_outputs} shapes"
        )
    return tuple(map(TensorShape, returned))
