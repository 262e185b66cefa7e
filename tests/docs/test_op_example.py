"""In the example of the page on ops, one function is definition, kernel and node builder."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
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


def test_graph_knows_the_ops_of_installed_plugins() -> None:
    program = """
import graphmill
graph = graphmill.Graph()
with graph.as_default():
    y = graph.create_op("MyPackage>ScaleBy", [graph.constant([1.0, 2.0])], {"factor": 3.0})
copied = graphmill.Graph.from_graph_def(graph.as_graph_def())
print(graphmill.Session(graph=copied).run(f"{y.name}:0").tolist())
try:
    graph.create_op("MyPackage>ScaleBi")
except graphmill.errors.NotFoundError as error:
    print(error.message)
"""
    variables = {
        **os.environ,
        "GRAPHMILL_LOAD_PLUGINS": "op_plugin",
        "PYTHONPATH": os.pathsep.join([str(PATH.parent), *filter(None, sys.path)]),
    }
    done = subprocess.run(
        [sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=True
    )
    values, message = done.stdout.splitlines()
    assert values == "[3.0, 6.0]"
    assert "did you mean 'MyPackage>ScaleBy'" in message
