"""Loops and conditionals with TensorFlow's gradients, functionalized and traced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.plugins.jit import tracer

import graphmill
from graphmill import proto
from graphmill.graph.formats.import_export import graph_from_graph_def
from graphmill.lowering.prune import build_client_graph
from graphmill_plugins.jit.functionalize import functionalize

_FOLDER = Path(__file__).parents[3] / "data" / "v1_gradients"
_NAMES = sorted(path.stem for path in _FOLDER.glob("*.pb"))


def load(name: str) -> tuple[bytes, dict[str, Any], list[str], list[Any]]:
    """Return the graph, feeds, fetches and expected values of a case."""
    with np.load(_FOLDER / f"{name}.npz") as arrays:
        feeds = {key[5:]: arrays[key] for key in arrays if key.startswith("feed ")}
        fetches = arrays["fetches"].tolist()
        expected = [arrays[f"want {index}"] for index in range(len(fetches))]
    return (_FOLDER / f"{name}.pb").read_bytes(), feeds, fetches, expected


@pytest.mark.parametrize("name", _NAMES)
def test_functionalized_gradients_equal_tensorflows(functionalizing: Any, name: str) -> None:
    graph, feeds, fetches, references = load(name)
    results = functionalizing.run(graph, fetches, feeds)
    for result, expected in zip(results, references, strict=True):
        np.testing.assert_allclose(result, expected, 1e-4, 1e-5)
    assert functionalizing.records
    assert all(record.is_functionalized for record in functionalizing.records)


def traced(name: str) -> tuple[list[Any], list[Any]]:
    """Return the results of the compiled graph, and the expected ones."""
    message, feeds, fetches, expected = load(name)
    ops = graphmill.default_host().ops
    full = graph_from_graph_def(proto.GraphDef.FromString(message), ops)
    client = build_client_graph(full, ops, list(feeds), fetches, []).graph
    functionalize(client)
    return tracer.run(client, list(feeds.values())), expected


@pytest.mark.parametrize("name", _NAMES)
def test_traced_gradients_equal_tensorflows(name: str) -> None:
    """Traced graphs with gradients of nested loops equal TensorFlow's results."""
    for result, expected in zip(*traced(name), strict=True):
        np.testing.assert_allclose(result, expected, 1e-4, 1e-5)
