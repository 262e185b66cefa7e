"""Summaries of models: inputs and outputs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

import graphmill
from graphmill import ops

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_each_output_of_a_list_is_an_output(
    graphmill_cli: Callable[..., Any], tmp_path: Path
) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [4], name="x")
        ops.array.split(np.int32(0), x, num_split=2, name="halves")
    path = tmp_path / "split.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    outcome = graphmill_cli("run", str(path), "[1, 2, 3, 4]", "--json")
    outputs = json.loads(outcome.out)["outputs"]
    assert {name: one["value"] for name, one in outputs.items()} == {
        "halves:0": [1, 2],
        "halves:1": [3, 4],
    }


def test_results_of_a_called_function_are_outputs(
    graphmill_cli: Callable[..., Any], digits: Path, tmp_path: Path
) -> None:
    frozen = str(tmp_path / "digits.pb")
    assert graphmill_cli("freeze", str(digits / "saved_model_tf2"), "--out", frozen).code == 0
    image = f"@{digits / 'seven.png'}"
    outcome = graphmill_cli("run", frozen, image, "--pixels", "0..1")
    assert "float32 [1, 10]" in outcome.out
