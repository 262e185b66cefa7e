"""Distinguish errors of a step from those in a model or its inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from graphmill.errors import OpError

_DURING_RUN: Final = "_graphmill_during_run"


def mark_as_execution(error: OpError) -> None:
    """Mark an error as raised while the graph ran."""
    setattr(error, _DURING_RUN, True)


def is_from_execution(error: OpError) -> bool:
    """Return whether an error was raised while the graph ran."""
    return getattr(error, _DURING_RUN, False)
