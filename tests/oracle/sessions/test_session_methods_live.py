"""Each public method of sessions behaves as in `tf.compat.v1`."""

from __future__ import annotations

import pytest
from tests.oracle.sessions.runtimes import graphmill_runtime, tensorflow_runtime
from tests.oracle.sessions.session_scenarios import KINDS, NOT_INTERACTIVE, SCENARIOS

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.filterwarnings("ignore:An interactive session is already active:UserWarning"),
    # TensorFlow's `__del__` fails for a session that could not be created.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ROWS = [
    (kind, name)
    for kind in KINDS
    for name in SCENARIOS
    if kind == "Session" or name not in NOT_INTERACTIVE
]


@pytest.mark.parametrize(("kind", "name"), ROWS)
def test_method_does_the_same(kind, name, tf):
    scenario = SCENARIOS[name]
    assert scenario(graphmill_runtime(), kind) == scenario(tensorflow_runtime(tf), kind)


@pytest.mark.parametrize("kind", KINDS)
def test_each_public_method_has_a_scenario(kind, tf):
    public = {name for name in dir(getattr(tf.compat.v1, kind)) if not name.startswith("_")}
    assert public <= set(SCENARIOS)
