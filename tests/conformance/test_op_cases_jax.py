"""Every traceable kernel, compiled by JAX, returns TensorFlow's golden results.

One test per op and not per case: most of the time goes to compiling, and the report stays readable.
"""

from __future__ import annotations

import itertools

import pytest

from graphmill.testing.case import load_cases
from graphmill.testing.compare import verdict
from graphmill.testing.runners.kernel_runner import NotApplicableError

pytest.importorskip("jax")
pytestmark = [pytest.mark.jax, pytest.mark.divided]

BY_OP = {
    op: list(cases)
    for op, cases in itertools.groupby(
        sorted(load_cases(), key=lambda case: case.op), key=lambda case: case.op
    )
}


@pytest.fixture(scope="module")
def runner(make_runner):
    return make_runner("jax")


# The names of the tests begin as those of the other runners do, so that one `-k` selects an op.
@pytest.mark.parametrize("op", BY_OP, ids=lambda op: f"{op}/all")
def test_kernel_matches_tensorflow(op, runner):
    cases = [case for case in BY_OP[op] if "jax" not in case.skip]
    results = runner.run_many(cases)
    wrong, skipped = [], []
    for case in cases:
        try:
            message = verdict(case, lambda one: results[one.id], "jax")
        except NotApplicableError as reason:
            skipped.append(str(reason))
        else:
            wrong += [f"{case.id}: {message}"] if message else []
    assert not wrong, "\n".join(wrong)
    if len(skipped) == len(cases):
        pytest.skip(skipped[0] if skipped else "all cases are skipped for JAX")
