"""Declare the gradient function of an op: `@graphmill.gradient("Tanh")`.

    @gradient("Square")
    def square(op, dy):
        return dy * 2 * op.inputs[0]

The function is called once per node, while the backward graph is built. Its arguments are the op (a
`ForwardOp`) and, for each output of the op, the gradient with respect to that output: a tensor, or
with `slices=True` possibly an `IndexedSlices`; None if another output has a gradient but this one
has none. The function adds nodes with `graphmill.ops` and returns the gradients with respect to
the inputs, in order: a list, or a single value for one input; None for an input without a gradient.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from graphmill.registry import function_source

if TYPE_CHECKING:
    from collections.abc import Callable

GRADIENTS_ATTRIBUTE = "__graphmill_gradients__"
_Declared = TypeVar("_Declared", bound="Callable[..., Any]")


class GradientDef(NamedTuple):
    """A gradient function and its ops.

    Attributes:
        ops: names of the ops.
        function: builds the gradients; None for ops through which no gradient flows.
        slices: whether the function accepts `IndexedSlices`; if not, it gets dense tensors.
    """

    ops: tuple[str, ...]
    function: Callable[..., Any] | None
    slices: bool = False

    @property
    def source(self) -> str:
        """Where the function is defined, as `module.function`, for messages."""
        function = self.function
        if function is None:
            return "none flows through it"
        return function_source(function)


class GradientTable(list[GradientDef]):
    """A table of gradient declarations; a module's tables are collected like its functions."""

    @property
    def __graphmill_gradients__(self) -> list[GradientDef]:
        """The gradients of the table, under the name that `gradients_of` looks for."""
        return self

    def add(self, *ops: str, function: Callable[..., Any] | None) -> None:
        """Declare a function as the gradient of ops."""
        self.append(GradientDef(ops, function))


def gradient(*ops: str, slices: bool = False) -> Callable[[_Declared], _Declared]:
    """Declare a function as the gradient of ops; a plugin must register it.

    Args:
        ops: names of the ops.
        slices: whether the function accepts `IndexedSlices`, the gradient of a tensor of which only
            some rows were read; if not, such a gradient is converted to a dense tensor.
    """

    def declare(function: _Declared) -> _Declared:
        declared = [*getattr(function, GRADIENTS_ATTRIBUTE, ()), GradientDef(ops, function, slices)]
        setattr(function, GRADIENTS_ATTRIBUTE, declared)
        return function

    return declare


def not_differentiable(*ops: str) -> GradientTable:
    """Return a table that declares that no gradient flows through these ops."""
    return GradientTable([GradientDef(ops, None)])


def gradients_of(owner: object) -> list[GradientDef]:
    """Return the gradients that a function, a table, or the contents of a module declare."""
    direct = getattr(owner, GRADIENTS_ATTRIBUTE, None)
    if direct is not None:
        return list(direct)
    declarations: dict[int, GradientDef] = {}
    if not inspect.ismodule(owner):
        return []
    for value in vars(owner).values():
        declared = getattr(value, GRADIENTS_ATTRIBUTE, None)
        if declared and (isinstance(value, GradientTable) or value.__module__ == owner.__name__):
            declarations.update((id(definition), definition) for definition in declared)
    return list(declarations.values())
