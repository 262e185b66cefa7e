"""Mark the clauses of the runtime's semantics that a test covers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from graphmill.deprecations import renamed_name

if TYPE_CHECKING:
    from collections.abc import Callable

CLAUSES_ATTRIBUTE = "__graphmill_clauses__"
_Test = TypeVar("_Test", bound="Callable[..., Any]")


def __getattr__(name: str) -> Any:
    """Resolve old names of this module."""
    return renamed_name(__name__, name)


def clauses(*names: str) -> Callable[[_Test], _Test]:
    """Declare the clauses ("R2") that a test covers; `--graphmill-coverage` reports them."""

    def declare(function: _Test) -> _Test:
        setattr(function, CLAUSES_ATTRIBUTE, names)
        return function

    return declare
