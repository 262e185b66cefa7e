"""Modules that another thread is still importing are treated as absent."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest

import graphmill
from graphmill import ops
from graphmill.errors import OpError


@pytest.fixture
def graph() -> graphmill.Graph:
    made = graphmill.Graph()
    with made.as_default():
        ops.math.neg(made.placeholder("float32", (2,), name="x"), name="y")
    return made


@pytest.mark.parametrize("name", ["logging", "jax.profiler"])
def test_a_traced_step_runs_beside_an_import(
    graph: graphmill.Graph, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with graphmill.Session(graph=graph, config={"graphmill": {"jit": "off"}}) as session:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
        metadata = graphmill.RunMetadata()
        options = {"trace_level": "FULL_TRACE"}
        result = session.run("y:0", {"x:0": np.ones(2)}, options=options, run_metadata=metadata)
    assert result.tolist() == [-1, -1]
    assert metadata.step_stats.dev_stats


def test_kernel_creation_error_is_raised_during_an_import(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        records = graph.placeholder("string", (1,), name="records")
        ops.parsing.decode_csv(records, [np.zeros(1, np.float32)], field_delim="ab", name="csv")
    with graphmill.Session(graph=graph) as session:
        monkeypatch.setitem(sys.modules, "logging", ModuleType("logging"))
        with pytest.raises(OpError, match="field_delim"):
            session.run("csv:0", {"records:0": [b"1"]})
