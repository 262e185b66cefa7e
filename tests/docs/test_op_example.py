"""In the example of the page on ops, one function is definition, kernel and node builder."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import graphmill

PATH = Path(__file__).parents[2] / "docs" / "examples" / "op_plugin.py"


def test_op_runs_only_where_its_plugin_is_installed() -> None:
    spec = importlib.util.spec_from_file_location("op_plugin", PATH)
    assert spec is not None
    assert spec.loader is not None
    plugin = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plugin)
    graph = graphmill.Graph()
    x = graph.placeholder("float64", name="x")
    y = graphmill.op_function(plugin.scale_by)(x, factor=3)

    with graphmill.Session(graph=graph, host=graphmill.Host([plugin])) as session:
        result = session.run(y, {x: [1.0, 2.0]})
    assert result.dtype == np.float64
    assert result.tolist() == [3.0, 6.0]
    with (
        pytest.raises(graphmill.errors.NotFoundError, match="no kernel for op 'MyPackage>ScaleBy'"),
        graphmill.Session(graph=graph) as session,
    ):
        session.run(y, {x: [1.0]})
