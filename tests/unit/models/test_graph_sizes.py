"""Sizes of variables: of all of a graph, and of those that some tensors depend on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import dtypes, ops, saved_model
from graphmill.models.graph_sizes import Size, is_placeholder, variables_size
from graphmill.ops.definition.op_def import ArgDef, OpDef
from graphmill.ops.definition.op_registry import OpRegistry
from graphmill.ops.definition.op_traits import OpTraits, Source

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytest.importorskip("google_crc32c")


@pytest.fixture
def graph() -> graphmill.Graph:
    """Return a graph with a variable and a copy of it, which nothing reads."""
    made = graphmill.Graph()
    with made.as_default():
        x = made.placeholder("float32", [3], name="x")
        used = graphmill.Variable(np.zeros(3, np.float32), name="used")
        graphmill.Variable(np.zeros((2, 3), np.float32), name="copy")
        with made.control_dependencies([ops.math.neg(x, name="first")]):
            ops.math.add_v2(x, used, name="y")
    return made


def test_variables_that_tensors_depend_on(graph: graphmill.Graph) -> None:
    definition = graph.as_graph_def()
    assert variables_size(definition, graph.ops) == Size(2, 9, 36)
    assert variables_size(definition, graph.ops, ["y:0"]) == Size(1, 3, 12)
    assert variables_size(definition, graph.ops, ["first:0"]) == Size()
    assert variables_size(definition, graph.ops, ["unknown:0"]) == Size()


def test_the_placeholder_of_a_plugin_is_one() -> None:
    known = OpRegistry()
    traits = OpTraits(source=Source.PLACEHOLDER)
    known.add(OpDef("Downstream>Fed", (), (ArgDef("y", dtypes.float32),), traits=traits))
    assert is_placeholder("Downstream>Fed", known)
    assert is_placeholder("PlaceholderWithDefault", known)
    assert not is_placeholder("Downstream>Fed", OpRegistry())
    assert not is_placeholder("Const", known)
    assert not is_placeholder(None, known)


def test_show_distinguishes_variables_from_copies(
    graph: graphmill.Graph, graphmill_cli: Callable[..., Any], tmp_path: Path
) -> None:
    path = str(tmp_path / "model")
    with graphmill.Session(graph=graph) as session:
        session.run([variable.initializer for variable in graph.variables])
        x, y = map(graph.get_tensor_by_name, ("x:0", "y:0"))
        saved_model.simple_save(session, path, {"x": x}, {"y": y})
    shown = graphmill_cli("show", path).out
    assert (
        "variables: 2 with 9 elements, 36 bytes (of these, the signatures read 1 with 3 elements, "
        "12 bytes)"
    ) in shown
    (data,) = json.loads(graphmill_cli("show", path, "--json").out)["graphs"]
    assert data["variables_of_signatures"] == {"nodes": 1, "elements": 3, "bytes": 12}
