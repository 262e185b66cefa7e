"""Errors name the place in the program that created the failing node."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphmill
from graphmill import ops
from graphmill.errors import InvalidArgumentError, OpError

HERE = str(Path(__file__))


def build() -> graphmill.Graph:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", None, name="x")
        ops.math.mat_mul(x, x, name="product")  # the line that is expected below
    return graph


def line_of(text: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


EXPECTED = f"{HERE}:{line_of('ops.math.mat_mul(x, x')} in build"


def test_graph_records_the_line_of_each_node() -> None:
    graph = build()
    assert graph.location_of("product") == EXPECTED
    assert graph.location_of("product/inside/a/function") == EXPECTED
    assert graph.location_of("none") is None
    assert graphmill.Graph.from_graph_def(graph.as_graph_def()).location_of("product") is None


@pytest.mark.parametrize("mode", ["off", "eager"])
def test_an_error_names_the_line(mode: str) -> None:
    config = {"graphmill": {"jit": mode}}
    with (
        graphmill.Session(graph=build(), config=config) as session,
        pytest.raises(InvalidArgumentError) as raised,
    ):
        session.run("product:0", {"x:0": np.ones((2, 3))})
    assert raised.value.defined_at == EXPECTED
    assert f"defined at {EXPECTED}" in str(raised.value)


def test_an_error_before_the_step_names_the_line() -> None:
    graph = graphmill.Graph()
    with graph.as_default(), graph.device("/device:NPU:0"):
        graph.constant(1.0, name="far")
    with graphmill.Session(graph=graph) as session, pytest.raises(OpError) as raised:
        session.run("far:0")
    assert raised.value.defined_at is not None
    assert raised.value.defined_at.startswith(f"{HERE}:")


def test_a_variable_decides_whether_lines_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHMILL_NODE_LOCATIONS", "0")
    assert build().location_of("product") is None


def test_an_error_of_a_message_names_no_line() -> None:
    with (
        graphmill.Session(graph=build().as_graph_def()) as session,
        pytest.raises(InvalidArgumentError) as raised,
    ):
        session.run("product:0", {"x:0": np.ones((2, 3))})
    assert raised.value.defined_at is None
    assert "defined at" not in str(raised.value)
