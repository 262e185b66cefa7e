"""Errors of a step are distinguished from those in a model."""

from __future__ import annotations

from graphmill import errors
from graphmill.models.execution_errors import is_from_execution, mark_as_execution


def test_only_marked_errors_are_from_a_step() -> None:
    error = errors.InvalidArgumentError("bad")
    assert not is_from_execution(error)
    mark_as_execution(error)
    assert is_from_execution(error)
    assert not is_from_execution(errors.InvalidArgumentError("bad"))
