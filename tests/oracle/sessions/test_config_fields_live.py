"""Each field of the configuration that acts has TensorFlow's effect."""

from __future__ import annotations

import pytest
from tests.oracle.sessions.config_scenarios import SCENARIOS
from tests.oracle.sessions.runtimes import graphmill_runtime, tensorflow_runtime

pytestmark = pytest.mark.oracle


@pytest.mark.parametrize("field", SCENARIOS, ids=" ".join)
def test_field_has_the_same_effect(field, tf):
    scenario = SCENARIOS[field]
    assert scenario(graphmill_runtime()) == scenario(tensorflow_runtime(tf))
