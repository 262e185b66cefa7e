"""Every kernel that can be traced gives TensorFlow's stored answers compiled by JAX.

One test per op and not per case: most of the time goes to compiling, and the report stays readable.
"""

from __future__ import annotations

import itertools

import pytest

from graphmill.testing.case import load_cases

pytest.importorskip("jax")
pytestmark = pytest.mark.jax

BY_OP = {
    op: list(cases)
    for op, cases in itertools.groupby(
        sorted(load_cases(), key=lambda case: case.op), key=lambda case: case.op
    )
}


@pytest.fixture(scope="module")
def runner(make_runner):
    return make_runner("jax")


@pytest.mark.parametrize("op", BY_OP)
def test_kernel_answers_like_tensorflow(op, runner, verdict):
    cases = [case for case in BY_OP[op] if "jax" not in case.skip]
    given = runner.run_many(cases)
    messages = {case.id: verdict(case, lambda c: given[c.id], "jax") for case in cases}
    wrong = {k: m for k, m in messages.items() if m and not m.startswith("not applicable")}
    assert not wrong, "\n".join(f"{k}: {m}" for k, m in wrong.items())
    if all(messages.values()):
        pytest.skip(next(iter(messages.values()), "no case for JAX"))
