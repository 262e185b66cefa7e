"""Judge a runner's answer to a case by TensorFlow's stored one."""

from __future__ import annotations

import functools
from collections.abc import Callable

from graphmill.testing.answers import Answer, Stored, read_answers
from graphmill.testing.case import FOLDER, Case
from graphmill.testing.compare import difference
from graphmill.testing.runner import NotApplicableError

Run = Callable[[Case], Answer | NotApplicableError]


@functools.cache
def stored_answers(stem: str) -> dict[str, Stored]:
    """Read TensorFlow's answers to the cases of one file."""
    return read_answers(FOLDER / "results" / f"{stem}.npz")


def verdict(case: Case, run: Run, backend: str) -> str:
    """Say what is wrong with the answer to a case; "" if nothing.

    Args:
        case: the question.
        run: answers it.
        backend: "numpy", "jax" or "session": whose tolerances and exceptions count.

    Raises:
        NotApplicableError: if the case is not for this runner.
    """
    if backend in case.skip:
        raise NotApplicableError(case.skip[backend])
    stored = stored_answers(case.stem).get(case.id)
    if stored is None or stored.digest != case.digest:
        return "there is no fresh stored answer; run tools/make_op_cases.py"
    got = run(case)
    if isinstance(got, NotApplicableError):
        raise got
    return difference(case, stored.answer, got, backend)
