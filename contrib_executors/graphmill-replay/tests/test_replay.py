"""The executor passes the suite, replays recordings and reports races."""

from __future__ import annotations

import json
import logging
from typing import ClassVar

import pytest

import graphmill
from graphmill import errors
from graphmill.ops import control_flow, math, state
from graphmill.testing.conformance import ExecutorTests, TierTests


class TestReplay(ExecutorTests):
    executor_type = "REPLAY"


class TestReplayTiers(TierTests):
    settings: ClassVar = {"experimental": {"executor_type": "REPLAY"}}
    is_compiled = False  # the executor must see each call of a kernel


def config(**settings: object) -> graphmill.ConfigProto:
    made = graphmill.ConfigProto()
    made.experimental.executor_type = "REPLAY"
    entry = made.graph_options.rewrite_options.custom_optimizers.add(name="replay")
    for key, value in settings.items():
        if isinstance(value, int):
            entry.parameter_map[key].i = value
        else:
            entry.parameter_map[key].s = str(value).encode()
    return made


def racing() -> graphmill.Graph:
    """An addition to a variable and an unordered read of it.

    The read depends on a node; a read without inputs would run before all writes.
    """
    graph = graphmill.Graph()
    with graph.as_default():
        v = state.var_handle_op(dtype="int32", shape=(), shared_name="v", name="v")
        state.assign_variable_op(v, 1, name="start")
        added = state.assign_add_variable_op(v, 10, name="added")
        with graph.control_dependencies([control_flow.no_op(name="go")]):
            read = state.read_variable_op(v, dtype="int32", name="read")
        with graph.control_dependencies([added]):
            math.mul(read, 1, name="result")
    return graph


def run(**settings: object) -> int:
    with graphmill.Session(graph=racing(), config=config(**settings)) as session:
        session.run("start")
        return int(session.run("result:0"))


def test_schedules_are_replayed_exactly(tmp_path) -> None:
    for seed in range(6):
        path = tmp_path / f"{seed}.json"
        first = run(mode="explore", seed=seed, path=path)
        assert [run(mode="replay", path=path) for _ in range(3)] == [first] * 3


def test_replayed_order_is_the_recorded_one(tmp_path) -> None:
    path = tmp_path / "schedule.json"
    run(mode="explore", seed=3, path=path)
    held = json.loads(path.read_text())
    orders = [step["order"] for step in held["steps"]]
    assert orders[0] == [["v", ""], ["start", ""]]
    read, added = orders[1].index(["read", ""]), orders[1].index(["added", ""])
    orders[1][read], orders[1][added] = ["added", ""], ["read", ""]
    before = run(mode="replay", path=path)
    path.write_text(json.dumps(held))
    assert {before, run(mode="replay", path=path)} == {1, 11}


def test_seeds_find_both_orders_of_a_race() -> None:
    assert {run(mode="explore", seed=seed) for seed in range(12)} == {1, 11}


def test_race_report_names_both_nodes_and_the_missing_edge(tmp_path, caplog) -> None:
    path = tmp_path / "schedule.json"
    with caplog.at_level(logging.WARNING):
        run(path=path)
    (race,) = json.loads(path.read_text())["steps"][-1]["races"]
    assert (race["resource"], race["first"], race["second"]) == ("v", "added", "read")
    assert "'^added' as an input of 'read'" in caplog.text


def test_ordered_accesses_are_no_race(tmp_path) -> None:
    path = tmp_path / "schedule.json"
    graph = graphmill.Graph()
    with graph.as_default():
        v = state.var_handle_op(dtype="int32", shape=(), shared_name="v")
        with graph.control_dependencies([state.assign_variable_op(v, 1)]):
            added = state.assign_add_variable_op(v, 10)
        with graph.control_dependencies([added]):
            read = state.read_variable_op(v, dtype="int32")
    with graphmill.Session(graph=graph, config=config(path=path)) as session:
        assert session.run(read) == 11
    assert json.loads(path.read_text())["steps"][0]["races"] == []


def test_references_race_too(tmp_path) -> None:
    path = tmp_path / "schedule.json"
    graph = graphmill.Graph()
    with graph.as_default():
        ref = state.variable_v2(shape=(), dtype="float32", name="ref")
        state.assign(ref, 1.0, name="one")
        state.assign(ref, 2.0, name="two")
    with graphmill.Session(graph=graph, config=config(path=path)) as session:
        session.run(["one:0", "two:0"])
    (race,) = json.loads(path.read_text())["steps"][-1]["races"]
    assert {race["first"], race["second"]} == {"one", "two"}


def test_a_schedule_of_another_step_is_refused(tmp_path) -> None:
    path = tmp_path / "schedule.json"
    path.write_text(json.dumps({"steps": [{"order": [["other", ""]]}]}))
    with (
        graphmill.Session(graph=racing(), config=config(mode="replay", path=path)) as session,
        pytest.raises(errors.FailedPreconditionError, match="does not fit this step"),
    ):
        session.run("start")


@pytest.mark.parametrize("settings", [{"mode": "rewind"}, {"mode": "replay"}, {"speed": 2}])
def test_wrong_settings_are_refused(settings) -> None:
    with (
        graphmill.Session(graph=racing(), config=config(**settings)) as session,
        pytest.raises(errors.InvalidArgumentError, match="replay"),
    ):
        session.run("start")


@pytest.mark.parametrize("jit", ["off", "tiered", "eager"])
def test_schedules_have_all_nodes_in_every_tier(jit: str, tmp_path) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", (), name="x")
        last = graphmill.while_loop(
            lambda i, _: i < 3, lambda i, a: (i + 1, math.mul(a, x, name="product")), [0, x]
        )[1]
        math.neg(last, name="y")
    settings = config(path=tmp_path / "steps.json")
    settings.graphmill.jit = jit
    with graphmill.Session(graph=graph, config=settings) as session:
        for _ in range(6):
            assert session.run("y:0", {"x:0": 2.0}) == -16.0
            graphmill.default_host().background.wait_idle()
    steps = json.loads((tmp_path / "steps.json").read_text())["steps"]
    assert len(steps) == 6
    for step in steps:
        assert sorted(step["order"]) == sorted(steps[0]["order"])
        assert [node for node, _ in step["order"]].count("while/product") == 3
