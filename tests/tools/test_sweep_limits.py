"""The sweep of limits draws instances by a seed, and judges how a step ended."""

from __future__ import annotations

import sys
from argparse import Namespace
from itertools import count, islice
from typing import TYPE_CHECKING, Any

import pytest

import graphmill
from graphmill import errors
from graphmill.testing.case import load_cases

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
OPTIONS = Namespace(
    op=None, family=["math"], cases=1, grow=False, sample=5, seed=1, deadline=0.5, late=5.0
)


@pytest.fixture
def sweep(tool: Callable[[str], Any]) -> Any:
    return tool("sweep_limits")


def test_sample_is_determined_by_its_seed(sweep: Any) -> None:
    def drawn(seed: int) -> list[Any]:
        options = Namespace(**vars(OPTIONS) | {"seed": seed})
        return [(case.id, change) for case, change in sweep.instances(options)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert len(drawn(1)) == 5


@pytest.mark.parametrize(
    ("failure", "outcome"),
    [
        (None, "done"),
        (errors.InvalidArgumentError("bad"), "error"),
        (errors.DeadlineExceededError("late"), "stopped"),
        (errors.ResourceExhaustedError("memory_budget_bytes"), "error"),
        (errors.ResourceExhaustedError("out of memory"), "memory"),
        (errors.InternalError("refused by a kernel"), "error"),
        (KeyError("bug"), "internal"),
    ],
)
def test_outcome_tells_how_a_step_ended(
    sweep: Any, monkeypatch: pytest.MonkeyPatch, failure: Exception | None, outcome: str
) -> None:
    def run(*_args: Any, **_options: Any) -> None:
        if failure is not None:
            raise failure

    monkeypatch.setattr(graphmill.Session, "run", run)
    (case,) = islice((case for case in load_cases() if case.op == "Relu"), 1)
    assert sweep.run_instance(case, None, OPTIONS)["outcome"] == outcome


def test_processor_time_beyond_the_deadline_is_late(
    sweep: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep.time, "process_time", count(0.0, 6.0).__next__)
    (case,) = islice((case for case in load_cases() if case.op == "Relu"), 1)
    assert sweep.run_instance(case, None, OPTIONS)["outcome"] == "late"
