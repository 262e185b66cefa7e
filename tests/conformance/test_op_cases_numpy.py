"""Every kernel returns TensorFlow's golden results on NumPy."""

from __future__ import annotations

import pytest

from graphmill.testing.case import load_cases
from graphmill.testing.compare import verdict
from graphmill.testing.runners.kernel_runner import NotApplicableError

pytestmark = pytest.mark.divided


@pytest.fixture(scope="module")
def runner(make_runner):
    return make_runner("numpy")


@pytest.mark.parametrize("case", load_cases(), ids=lambda case: case.id)
def test_kernel_matches_tensorflow(case, runner):
    try:
        message = verdict(case, runner.run, "numpy")
    except NotApplicableError as reason:
        pytest.skip(str(reason))
    assert not message, message
