"""Gradients equal TensorFlow's stored ones for cases that once differed."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from graphmill.testing.case import load_cases
from graphmill.testing.differential.gradients import difference
from graphmill.testing.golden import CaseResult
from graphmill.testing.oracle.gradient_results import GradientRequest, graphmill_gradients

pytestmark = pytest.mark.divided

FOLDER = Path(__file__).parents[2] / "data/gradients"
ORDERS = {"first": 1, "second": 2}
CASES = {
    case.id: (case, stem) for stem in ORDERS for case in load_cases(stems=[stem], folder=FOLDER)
}


@cache
def results(stem: str) -> dict[str, CaseResult]:
    """Return the stored gradients by case."""
    found: dict[str, CaseResult] = {}
    with np.load(FOLDER / f"{stem}.npz") as archive:
        for key in archive.files:
            case, _, kind = key.rsplit("|", 2)
            known = found.get(case, CaseResult())
            found[case] = CaseResult((*known.outputs, archive[key]), (*known.dtypes, kind))
    return found


@pytest.mark.parametrize("name", CASES)
def test_gradients_are_as_they_are_stored(name: str) -> None:
    case, stem = CASES[name]
    assert (
        difference(results(stem)[name], graphmill_gradients(case, GradientRequest(ORDERS[stem])))
        == ""
    )


def test_every_stored_gradient_has_a_case() -> None:
    assert {case for stem in ORDERS for case in results(stem)} == set(CASES)
