"""Every op gives TensorFlow's stored answers in a session; errors name the node (S6, S12)."""

from __future__ import annotations

import pytest

from graphmill.testing.case import load_cases


@pytest.fixture(scope="module")
def runner(make_runner):
    return make_runner("session")


@pytest.mark.parametrize("case", load_cases(), ids=lambda case: case.id)
def test_session_answers_like_tensorflow(case, runner, verdict):
    message = verdict(case, runner.run, "session")
    if message.startswith("not applicable"):
        pytest.skip(message)
    assert not message, message
