"""TensorFlow recomputes every op case: golden results and kernels are right."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from graphmill.testing.case import FOLDER, case_files, load_cases
from graphmill.testing.compare import difference
from graphmill.testing.golden import CaseResult, Stored, read_results
from graphmill.testing.runners.kernel_runner import NotApplicableError

pytestmark = pytest.mark.oracle

BY_OP = {
    op: list(cases)
    for op, cases in itertools.groupby(
        sorted(load_cases(), key=lambda case: case.op), key=lambda case: case.op
    )
}
STORED = {
    case_id: stored
    for path in case_files()
    for case_id, stored in read_results(FOLDER / "results" / f"{path.stem}.npz").items()
}


@pytest.fixture(scope="module")
def ask(tf):
    from graphmill.testing.oracle import tensorflow_oracle

    return tensorflow_oracle.run_case


@pytest.fixture(scope="module")
def runners(make_runner):
    return make_runner("numpy"), make_runner("session")


def ours(case, runners):
    """Return graphmill's result: of the kernel, or of a session if the kernel needs one."""
    try:
        return runners[0].run(case)
    except NotApplicableError:
        return runners[1].run(case)


@pytest.mark.parametrize("op", BY_OP)
def test_live_results(op, ask, runners):
    wrong = []
    for case in BY_OP[op]:
        live = ask(case)
        stored = STORED.get(case.id, Stored("", CaseResult(error="no stored result"))).result
        asked_again = difference(replace(case, differs=""), live, stored, "numpy")
        wrong += [f"{case.id} as stored: {asked_again}"] if asked_again else []
        if not {"numpy", "session"} & set(case.skip):
            text = difference(case, live, ours(case, runners), "numpy")
            wrong += [f"{case.id}: {text}"] if text else []
    assert not wrong, "\n".join(wrong)


def test_enough_ops_are_compared():
    assert len(BY_OP) >= 150
