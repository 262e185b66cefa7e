"""Say how the gradient of an op is built: `@graphmill.gradient("Tanh")`.

    @gradient("Square")
    def square(op, dy):
        return dy * 2 * op.inputs[0]

The function is called once, while the graph of gradients is built. It is given the op (a
`ForwardOp`) and, for each of its outputs, the gradient there: a tensor, or None for an output of
several that has none; with `slices=True` an `IndexedSlices`, too. It adds nodes with
`graphmill.ops` and returns the gradients of the inputs, in order: one alone, or a list; None where
there is none.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

GRADIENTS_ATTRIBUTE = "__graphmill_gradients__"
_Declared = TypeVar("_Declared", bound="Callable[..., Any]")


@dataclass(frozen=True, slots=True, eq=False)
class GradientDef:
    """Hold a gradient function and the ops that it is for.

    Attributes:
        ops: names of the ops.
        function: builds the gradients; None for ops through which no gradient flows.
        slices: whether the function takes `IndexedSlices`; others are given tensors.
    """

    ops: tuple[str, ...]
    function: Callable[..., Any] | None
    slices: bool = False


class GradientTable(list[GradientDef]):
    """Gradients declared in a table, collected from a module like decorated functions are."""

    @property
    def __graphmill_gradients__(self) -> list[GradientDef]:
        """The gradients of the table, under the name that collection looks for."""
        return self

    def add(self, *ops: str, function: Callable[..., Any] | None) -> None:
        """Declare a function as the gradient of ops."""
        self.append(GradientDef(ops, function))


def gradient(*ops: str, slices: bool = False) -> Callable[[_Declared], _Declared]:
    """Declare that a function builds the gradient of ops; a plugin registers it.

    Args:
        ops: names of the ops.
        slices: whether it takes the gradient of a tensor of which only rows were read as
            `IndexedSlices`, to hand them on, say; otherwise it is given a tensor.
    """

    def declare(function: _Declared) -> _Declared:
        declared = [*getattr(function, GRADIENTS_ATTRIBUTE, ()), GradientDef(ops, function, slices)]
        setattr(function, GRADIENTS_ATTRIBUTE, declared)
        return function

    return declare


def not_differentiable(*ops: str) -> GradientTable:
    """Return a table that says that no gradient flows through these ops."""
    return GradientTable([GradientDef(ops, None)])


def gradients_of(owner: object) -> list[GradientDef]:
    """Return the gradients declared by a function, a table, or everything in a module."""
    direct = getattr(owner, GRADIENTS_ATTRIBUTE, None)
    if direct is not None:
        return list(direct)
    found: dict[int, GradientDef] = {}
    if not inspect.ismodule(owner):
        return []
    for value in vars(owner).values():
        declared = getattr(value, GRADIENTS_ATTRIBUTE, None)
        if declared and (isinstance(value, GradientTable) or value.__module__ == owner.__name__):
            found.update((id(definition), definition) for definition in declared)
    return list(found.values())
