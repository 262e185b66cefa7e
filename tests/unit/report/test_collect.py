"""The contents of a report: the graph with tiers, traced steps, reasons, advice; bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.report.report_graphs import chain, scopes_and_a_loop, with_a_function_loop

import graphmill
from graphmill import ops, report
from graphmill.errors import InvalidArgumentError, NotFoundError
from graphmill.report import report_data

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "saved_model_tf2"


def collected(
    graph: graphmill.Graph, value: Any, steps: int, jit: str = "tiered"
) -> dict[str, Any]:
    with graphmill.Session(graph=graph, config={"graphmill": {"jit": jit}}) as session:
        return report.collect(session, "out:0", {"x:0": value}, steps=steps)


def test_the_data_are_json() -> None:
    data = collected(scopes_and_a_loop(), np.ones((2, 4), "float32"), 2)
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert data["version"] == 1


def test_nodes_have_scopes_frames_and_inputs() -> None:
    graph = collected(scopes_and_a_loop(), np.ones((2, 4), "float32"), 0)["graph"]
    names = graph["name"]
    scopes, frames = (
        next(one for one in graph["groupings"] if one["key"] == key) for key in ("scope", "frame")
    )
    product = names.index("layer_1/product")
    assert scopes["labels"][scopes["of"][product]] == "layer_1"
    assert [names[source] for source in graph["inputs"][product]] == [
        "layer_0/out",
        "layer_1/weights",
    ]
    looped = [name for name, group in zip(names, frames["of"], strict=True) if group]
    assert "while/mul" in looped
    assert "layer_1/product" not in looped
    assert names.index("layer_1/weights") in graph["constants"]


@pytest.mark.jax
def test_steps_have_times_and_memory_of_their_nodes() -> None:
    data = collected(scopes_and_a_loop(), np.ones((2, 4), "float32"), 20, jit="eager")
    assert [step["name"] for step in data["steps"]] == ["step 1 of 20", "step 20 of 20"]
    last = data["steps"][-1]
    assert all(start >= 0 and length >= 0 for _, start, length, *_ in last["slices"])
    assert all(start + length <= last["nanoseconds"] for _, start, length, *_ in last["slices"])
    (peak,) = last["peaks"]
    assert peak["bytes"] == max(bytes_ for _, bytes_ in last["memory"][0]["points"])
    assert peak["bytes"] >= peak["holders"][0][1] > 0
    assert sum(one["share"] for one in data["by_time"]) <= 1.0001
    assert data["clusters"]
    assert "compiled" in data["graph"]["tables"]["tier"]


def test_interpreted_nodes_have_reasons() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        ops.math.neg(ops.array.unique(x)[0], name="out")
    config = {"graphmill": {"jit": "off"}}
    with graphmill.Session(graph=graph, config=config) as session:
        data = report.collect(session, "out:0", {"x:0": [1.0, 1.0]}, steps=3)
    (reason,) = data["not_compiled"]
    assert "compilation is off" in reason["reason"]
    assert reason["nanoseconds"] > 0
    assert "The graph was not built for compilation" in [one["title"] for one in data["advice"]]


def test_functions_that_stay_calls_are_groups() -> None:
    with graphmill.Session(graph=with_a_function_loop()) as session:
        data = report.collect(session, "out:0", {"x:0": 0.5})
    graph = data["graph"]
    functions = next(one for one in graph["groupings"] if one["key"] == "function")
    assert {"the graph", "body", "cond"} <= set(functions["labels"])
    doubled = graph["name"].index("body/doubled")
    assert functions["labels"][functions["of"][doubled]] == "body"
    assert [graph["name"][source] for source in graph["inputs"][doubled]] == ["body/a", "body/a"]
    assert ["cond", "body"] in graph["calls"].values() or ["body", "cond"] in graph[
        "calls"
    ].values()


def test_a_saved_model_reports_its_signature() -> None:
    with graphmill.saved_model.load(DIGITS) as model:
        data = report.collect(model)
    assert data["steps"] == []
    assert data["advice"][0]["title"] == "No step was run"
    assert ["Feeds", "serving_default_image:0"] in data["summary"]


def test_a_session_reports_the_signature_that_ran_most() -> None:
    with graphmill.Session(graph=scopes_and_a_loop()) as session:
        value = np.ones((1, 4), "float32")
        session.run("layer_0/out:0", {"x:0": value})
        for _ in range(2):
            session.run("out:0", {"x:0": value})
        data = report.collect(session)
    assert ["Fetches", "out:0"] in data["summary"]


def test_a_session_that_ran_nothing_needs_fetches() -> None:
    with (
        graphmill.Session(graph=scopes_and_a_loop()) as session,
        pytest.raises(InvalidArgumentError, match="pass fetches="),
    ):
        report.collect(session)


def test_steps_need_values() -> None:
    with (
        graphmill.saved_model.load(DIGITS) as model,
        pytest.raises(InvalidArgumentError, match=r"feed_dict= with 'serving_default_image:0'"),
    ):
        report.collect(model, steps=3)


def test_an_unknown_fetch_names_near_ones() -> None:
    with (
        graphmill.Session(graph=scopes_and_a_loop()) as session,
        pytest.raises(NotFoundError, match="layer_0/out"),
    ):
        report.collect(session, "layer_0/ouf:0")


def test_more_nodes_than_can_be_drawn_leave_the_scopes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_data, "MAX_NODES", 100)
    data = collected(chain(300), [1.0], 1)
    graph = data["graph"]
    assert graph["is_reduced"]
    assert graph["num_nodes"] > 300
    assert "name scopes only" in data["notes"][0]
    assert len(graph["name"]) < 40
    (scopes,) = graph["groupings"]
    assert {"layer_0", "layer_9"} <= set(scopes["labels"])
    inner = [group for group in scopes["of"] if scopes["labels"][group] == "layer_3"]
    assert len(inner) == 1
    assert all(node == -1 for _, _, _, node, _, _ in data["steps"][0]["slices"])
