"""Each field and method that is compared with TensorFlow live has a scenario, or a reason."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.oracle.sessions import config_scenarios, session_scenarios
from tests.oracle.sessions.runtimes import Raised, graphmill_runtime, outcome

import graphmill

ROOT = Path(__file__).parents[3]


def load_tool() -> Any:
    path = ROOT / "tools" / "make_config_reference.py"
    spec = importlib.util.spec_from_file_location("make_config_reference_of_scenarios", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


TOOL = load_tool()
ACTING = {
    (message, path)
    for message in TOOL.MESSAGES
    for path, field in TOOL.declared(message).items()
    if field.effect == "acts"
}


def test_each_field_that_acts_has_a_scenario_or_a_reason() -> None:
    compared, uncompared = set(config_scenarios.SCENARIOS), set(config_scenarios.UNCOMPARED)
    assert compared | uncompared == ACTING
    assert not compared & uncompared
    assert all(config_scenarios.UNCOMPARED.values())


def test_each_public_method_has_a_scenario() -> None:
    public = {
        *("as_default", "close", "graph", "graph_def", "list_devices", "make_callable"),
        *("partial_run", "partial_run_setup", "reset", "run", "sess_str"),
    }  # of tf.compat.v1.Session, which the live tests check
    assert public <= set(session_scenarios.SCENARIOS)
    assert all(hasattr(graphmill.Session, name) for name in public)


def test_outcome_of_an_error_equals_that_of_a_base_class() -> None:
    def failure(error: Exception) -> Any:
        def fail() -> None:
            raise error

        return outcome(fail)

    ours = failure(graphmill.errors.InvalidArgumentError("a"))
    assert isinstance(ours, Raised)
    assert ours == failure(graphmill.errors.InvalidArgumentError("b"))
    assert ours == failure(graphmill.errors.OpError("b"))
    assert ours != failure(KeyError("a"))
    assert ours != []


@pytest.mark.parametrize("field", ["device_count", "allow_soft_placement"])
def test_scenario_shows_the_effect_of_its_field(field: str) -> None:
    scenario = config_scenarios.SCENARIOS["ConfigProto", field]
    found = scenario(graphmill_runtime())
    assert len(found) >= 2
    assert found[0] != found[1]
