"""Stored answers and verdicts for the op cases."""

from __future__ import annotations

import functools

import pytest

from graphmill.testing.answers import Stored, read_answers
from graphmill.testing.case import FOLDER, Case
from graphmill.testing.compare import difference
from graphmill.testing.hosts import Runner
from graphmill.testing.runner import NotApplicableError


@functools.cache
def answers(stem: str) -> dict[str, Stored]:
    return read_answers(FOLDER / "results" / f"{stem}.npz")


@pytest.fixture
def verdict():
    """Return the judge of a case: "" if right, "not applicable: …", or what is wrong."""

    def judge(case: Case, runner: Runner, backend: str) -> str:
        if backend in case.skip:
            return f"not applicable: {case.skip[backend]}"
        stored = answers(case.stem).get(case.id)
        if stored is None or stored.digest != case.digest:
            return "no fresh stored answer; run tools/make_op_cases.py"
        try:
            got = runner.run(case)
        except NotApplicableError as reason:
            return f"not applicable: {reason}"
        return difference(case, stored.answer, got, backend)

    return judge
