"""Arguments and results of a run (clause E2)."""

from __future__ import annotations

import pytest

from graphmill import errors
from graphmill.runtime.steps.call_frame import CallFrame
from graphmill.runtime.steps.step_container import StepContainer


def test_e2_arguments_are_read_and_results_written_by_index() -> None:
    frame = CallFrame(["a", "b"], 2)
    assert [frame.get_arg(0), frame.get_arg(1)] == ["a", "b"]
    assert frame.retvals == [CallFrame.UNSET, CallFrame.UNSET]
    frame.set_retval(1, "r")
    assert frame.retvals == [CallFrame.UNSET, "r"]


def test_e2_an_argument_that_was_not_given() -> None:
    with pytest.raises(errors.InternalError, match="argument 1 is missing; the call passed 1"):
        CallFrame(["a"], 0).get_arg(1)


def test_s10_step_container_records_whether_it_was_requested() -> None:
    container = StepContainer(42)
    assert not container.is_used
    assert container.name == "__per_step_42"
    assert container.is_used
