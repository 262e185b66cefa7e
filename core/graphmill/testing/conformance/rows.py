"""Mark the rows of the runtime's specification that a test covers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS_ATTRIBUTE = "__graphmill_rows__"
_Test = TypeVar("_Test", bound="Callable[..., Any]")


def rows(*names: str) -> Callable[[_Test], _Test]:
    """Declare the rows ("R2") that a test covers; `--graphmill-levels` reports them."""

    def declare(function: _Test) -> _Test:
        setattr(function, ROWS_ATTRIBUTE, names)
        return function

    return declare
