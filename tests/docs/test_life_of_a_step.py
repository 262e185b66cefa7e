"""The pages on the life of a step and on executor states match the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import graphmill
from graphmill.lowering import execution_state, kernel_factory
from graphmill.lowering.partitioning import build_executors
from graphmill.session.steps import step
from graphmill_plugins.default_executor import executor, propagator, state

if TYPE_CHECKING:
    from collections.abc import Callable

DOCS = Path(__file__).resolve().parents[2] / "docs" / "explanation"
CLASSES = {
    "Propagator": propagator.Propagator,
    "FrameState": state.FrameState,
    "IterationState": state.IterationState,
}
ROW = re.compile(r"^\| `(\w+)\.(\w+)` \|", re.MULTILINE)


@pytest.fixture
def trace(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the called functions of a step in order."""
    log: list[str] = []

    def note(owner: Any, name: str, label: Callable[..., str]) -> None:
        original = getattr(owner, name)

        def noted(*args: Any, **keywords: Any) -> Any:
            log.append(label(*args))
            return original(*args, **keywords)

        monkeypatch.setattr(owner, name, noted)

    note(execution_state, "build_client_graph", lambda *_: "cut and prune")
    note(execution_state, "run_passes", lambda phase, *_: phase)
    note(build_executors, "place", lambda *_: "place")
    note(build_executors, "run_passes", lambda phase, *_: phase)
    note(build_executors, "partition", lambda *_: "partition")
    note(kernel_factory.KernelFactory, "choose_all", lambda *_: "choose kernels")
    note(executor.DefaultExecutor, "__init__", lambda *_: "make executor")
    note(step, "next_step_id", lambda *_: "new step")
    note(executor.DefaultExecutor, "run_async", lambda *_: "run")
    note(step, "step_results", lambda *_: "fetch")
    return log


def test_s5_s6_page_lists_calls_in_code_order(trace: list[str]) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        graphmill.ops.math.neg(graph.placeholder("float32", (), "x"), name="y")
    with graphmill.Session(graph=graph) as session:
        assert session.run("y:0", {"x:0": 1}) == -1
        first = list(trace)
        assert session.run("y:0", {"x:0": 2}) == -2
    assert first == [
        "cut and prune",
        "PRE_PLACEMENT",
        "place",
        "POST_PLACEMENT",
        "POST_REWRITE_FOR_EXEC",
        "partition",
        "POST_PARTITIONING",
        "choose kernels",
        "make executor",
        "new step",
        "run",
        "fetch",
    ]
    assert trace[len(first) :] == ["new step", "run", "fetch"], "a hit in the cache builds nothing"


def test_s8_a_partial_run_rests_between_its_pieces(trace: list[str]) -> None:
    """The feeds of a partial run are `_Recv` nodes, its fetches `_Send` nodes; it starts once."""
    graph = graphmill.Graph()
    with graph.as_default():
        x, z = (graph.placeholder("float32", (), name) for name in "xz")
        graphmill.ops.math.neg(x, name="y")
        graphmill.ops.math.neg(z, name="w")
    with graphmill.Session(graph=graph) as session:
        handle = session.partial_run_setup(["y:0", "w:0"], ["x:0", "z:0"])
        assert trace.count("run") == 1
        assert session.partial_run(handle, "y:0", {"x:0": 1}) == -1
        assert session.partial_run(handle, "w:0", {"z:0": 1}) == -1
        assert trace.count("run") == 1


def test_e4_collections_on_the_page_exist() -> None:
    text = (DOCS / "executor-states.md").read_text("utf-8")
    named = set(ROW.findall(text))
    assert len(named) == 11
    for owner, name in named:
        assert name in CLASSES[owner].__slots__, f"{owner}.{name}"


def test_e4_each_collection_of_the_code_is_on_the_page() -> None:
    text = (DOCS / "executor-states.md").read_text("utf-8")
    named = {name for _, name in ROW.findall(text)}
    told_elsewhere = {
        *("view", "root", "_first", "parent", "frame", "number", "_id"),  # where it belongs
        "iteration_count",  # a number that `iterations` is keyed by
    }
    for cls in CLASSES.values():
        assert set(cls.__slots__) - told_elsewhere <= named
