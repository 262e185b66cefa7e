"""Infer values before a graph runs: constants, and integers computed from static shapes.

Shape functions ask for them: `Reshape(x, [Shape(x)[0], -1])` has a first size of its own although
nothing runs. An op declares by a value function what is known of its outputs:

    @op("MyPackage>Same", value=lambda op: op.value(0))

It is given the node as a `ValueContext`, and returns an array of rank 0 or 1 of element type
object, None for elements that are not known; or None if nothing is known. TensorFlow's ops have
theirs in `graphmill.ops.shapes.values`.
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

LARGEST: Final = 256
"""How many elements a value may have to be looked at; shapes have fewer."""


class ValueContext(Protocol):
    """A node as its value function sees it; inputs are counted from 0, lists unfolded.

    Attributes:
        attrs: its attrs in canonical form.
        output: the index of the output whose value is asked for.
    """

    attrs: Mapping[str, Any]
    output: int

    @property
    def num_inputs(self) -> int:
        """How many inputs it has."""
        ...

    @property
    def gives_integers(self) -> bool:
        """Whether its first output is of an integer type."""
        ...

    def value(self, index: int) -> Partial:
        """Return what is known of an input: the array of a constant, or partial integers."""
        ...

    def integers(self, index: int) -> Partial:
        """Return an input as an array of objects if it is a number or a vector of integers."""
        ...

    def shape(self, index: int) -> TensorShape:
        """Return what is known of an input's shape."""
        ...


def value_function(op_def: OpDef) -> ValueFunction | None:
    """Return the value function of an op: its own, or what its traits imply; None for neither."""
    if op_def.value_function is not None:
        return op_def.value_function
    if same_bundled(op_def) is not None:  # and no plugin's own meaning of the name
        from graphmill.ops.shapes.values import VALUES  # few ask for values at all

        found = VALUES.get(op_def.name)
        if found is not None:
            return found
    return _function_by_traits(op_def)


def _function_by_traits(op_def: OpDef) -> ValueFunction | None:
    traits = op_def.traits
    if traits.source is Source.CONSTANT:
        return _constant
    if traits.control_flow is ControlFlow.ENTER:
        return _first_input
    return _forwarded if traits.forwards else None


def _constant(op: ValueContext) -> Partial:
    found: NDArray[Any] = op.attrs["value"].numpy()
    return found


def _first_input(op: ValueContext) -> Partial:
    return op.value(0)


def _forwarded(op: ValueContext) -> Partial:
    return op.value(op.output)
