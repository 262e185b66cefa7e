"""Stored answers and verdicts for the op cases."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import pytest

from graphmill.testing.answers import Answer, Stored, read_answers
from graphmill.testing.case import FOLDER, Case
from graphmill.testing.compare import difference
from graphmill.testing.runner import NotApplicableError

if TYPE_CHECKING:
    from collections.abc import Callable


@functools.cache
def answers(stem: str) -> dict[str, Stored]:
    return read_answers(FOLDER / "results" / f"{stem}.npz")


@pytest.fixture
def verdict():
    """Return the judge of a case: "" if right, "not applicable: …", or what is wrong."""

    def judge(case: Case, run: Callable[[Case], Answer | NotApplicableError], backend: str) -> str:
        if backend in case.skip:
            return f"not applicable: {case.skip[backend]}"
        stored = answers(case.stem).get(case.id)
        if stored is None or stored.digest != case.digest:
            return "no fresh stored answer; run tools/make_op_cases.py"
        try:
            got = run(case)
        except NotApplicableError as reason:
            got = reason
        if isinstance(got, NotApplicableError):
            return f"not applicable: {got}"
        return difference(case, stored.answer, got, backend)

    return judge
