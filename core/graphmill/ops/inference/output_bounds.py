"""Declare how large the outputs of an op can be, by its shape function.

Outputs that are no larger than an input need no request to the memory budget.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_ATTRIBUTE: Final = "__graphmill_output_bound__"
_Function = TypeVar("_Function", bound="Callable[..., Any]")


class OutputBound(Enum):
    """The maximum number of elements of an output.

    Attributes:
        INPUT: as many as the largest input. A kernel that needs more, such as a sum over an axis
            of size zero, requests it itself.
        PRODUCT: as many as the product of the numbers of elements of the two inputs, unless that is
            zero.
    """

    INPUT = "input"
    PRODUCT = "product"


def bounded_by(bound: OutputBound) -> Callable[[_Function], _Function]:
    """Declare the bound of the outputs of the decorated shape function."""

    def declare(function: _Function) -> _Function:
        setattr(function, _ATTRIBUTE, bound)
        return function

    return declare


def output_bound(function: Callable[..., Any]) -> OutputBound | None:
    """Return the bound that a shape function declares, or None."""
    bound: OutputBound | None = getattr(function, _ATTRIBUTE, None)
    return bound
