"""Infer static values: constants, and integers that are computed from static shapes.

Shape functions need them: the first size of `Reshape(x, [Shape(x)[0], -1])` is static if that of
`x` is. An op declares a value function to infer static values of its outputs:

    @op("MyPackage>Same", value=lambda op: op.value(0))

The function takes the node as a `ValueContext`. It returns an array of rank 0 or 1 of element type
object, with None for unknown elements; or None if nothing is known. The value functions of
TensorFlow's ops are in `graphmill.ops.shapes.values`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from graphmill.ops.definition.op_registry import same_bundled
from graphmill.ops.definition.op_traits import ControlFlow, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from graphmill.ops.definition.op_def import OpDef
    from graphmill.ops.inference.tensor_shape import TensorShape

    Partial = NDArray[Any] | None
    ValueFunction = Callable[["ValueContext"], Partial]

MAX_STATIC_ELEMENTS: Final = 256
"""Values with more elements are not inferred: no shape has as many sizes."""


class ValueContext(Protocol):
    """The node argument of value functions; inputs are indexed from 0, with lists flattened.

    Attributes:
        attrs: its attrs in canonical form.
        output: the index of the output to infer.
    """

    attrs: Mapping[str, Any]
    output: int

    @property
    def num_inputs(self) -> int:
        """Number of inputs."""
        ...

    @property
    def gives_integers(self) -> bool:
        """Whether its first output has an integer type."""
        ...

    def value(self, index: int) -> Partial:
        """Return the static value of an input: the array of a constant, or partial integers."""
        ...

    def integers(self, index: int) -> Partial:
        """Return the static value as an array of objects, if it is an integer scalar or vector."""
        ...

    def shape(self, index: int) -> TensorShape:
        """Return the static shape of an input."""
        ...


def value_function(op_def: OpDef) -> ValueFunction | None:
    """Return the value function of an op, or the one that its traits imply, or None."""
    if op_def.value_function is not None:
        return op_def.value_function
    if same_bundled(op_def) is not None:  # not an op of a plugin with the same name
        from graphmill.ops.shapes.values import VALUES  # lazily: rarely needed

        function = VALUES.get(op_def.name)
        if function is not None:
            return function
    return _function_by_traits(op_def)


def _function_by_traits(op_def: OpDef) -> ValueFunction | None:
    traits = op_def.traits
    if traits.source is Source.CONSTANT:
        return _constant
    if traits.control_flow is ControlFlow.ENTER:
        return _first_input
    return _forwarded if traits.forwards else None


def _constant(op: ValueContext) -> Partial:
    value: NDArray[Any] = op.attrs["value"].numpy()
    return value


def _first_input(op: ValueContext) -> Partial:
    return op.value(0)


def _forwarded(op: ValueContext) -> Partial:
    return op.value(op.output)
