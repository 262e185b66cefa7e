"""Inferred shapes never contradict TensorFlow's (clause G5)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import graphmill
from graphmill import proto
from graphmill.graph.formats.import_export import graph_to_graph_def
from graphmill.testing.generators.control_flow_graphs import structured_graph
from graphmill.testing.generators.dataflow_graphs import random_graph

pytestmark = pytest.mark.oracle
ROOT = Path(__file__).parents[3]
MODELS = Path(os.environ.get("GRAPHMILL_BENCH_MODELS", "no such folder"))
FILES = [ROOT / "examples" / "digits" / "digits_frozen.pb", *sorted(MODELS.glob("*/graph.pb"))]


def compared(tf, content: bytes) -> tuple[int, int, list[str]]:
    """Return the numbers of equal and of all shapes, and the contradictions."""
    graph_def = tf.compat.v1.GraphDef.FromString(content)
    with tf.Graph().as_default() as theirs:
        tf.import_graph_def(graph_def, name="")
    ours = graphmill.Graph.from_graph_def(proto.GraphDef.FromString(content))
    tensors = [tensor for node in ours.nodes for tensor in ours.outputs_of(node)]
    same, wrong = 0, []
    for tensor in tensors:
        known = theirs.get_tensor_by_name(tensor.name).shape
        shape = None if known.rank is None else tuple(known.as_list())
        same += tensor.shape == shape
        if not tensor.shape.is_compatible_with(shape):
            wrong.append(f"{tensor.name} ({tensor.op.op}): {tensor.shape}, TensorFlow {shape}")
    return same, len(tensors), wrong


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_shapes_in_models_do_not_contradict_tensorflows(path: Path, tf) -> None:
    same, count, wrong = compared(tf, path.read_bytes())
    assert not wrong, "\n".join(wrong)
    assert same > 0.3 * count  # in loops we know more; of handles and calls less


@pytest.mark.parametrize("seed", range(20))
def test_shapes_in_random_graphs_do_not_contradict_tensorflows(seed: int, tf) -> None:
    made = random_graph(seed, graphmill.default_host().ops)
    _, _, wrong = compared(tf, made.graph_def.SerializeToString())
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("seed", range(20))
def test_shapes_in_random_control_flow_do_not_contradict_tensorflows(seed: int, tf) -> None:
    made = structured_graph(seed, graphmill.default_host().ops)
    _, _, wrong = compared(tf, graph_to_graph_def(made.graph).SerializeToString())
    assert not wrong, "\n".join(wrong)
