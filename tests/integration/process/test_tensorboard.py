"""TensorBoard's own reader understands the event files."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

import numpy as np
import pytest

import graphmill
from graphmill import ops, summary

if TYPE_CHECKING:
    from pathlib import Path

# TensorBoard changes the process that imports it: loggers, warnings, message types.
READER = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
found = EventAccumulator(sys.argv[1])
found.Reload()
print(json.dumps({
    "tags": found.Tags(),
    "loss": [[event.step, event.value] for event in found.Scalars("train/loss")],
    "histogram": found.Histograms("x")[0].histogram_value.num,
    "image": found.Images("digit/image")[0].width,
    "text": found.Tensors("note")[0].tensor_proto.string_val[0].decode(),
    "nodes": [node.name for node in found.Graph().node],
    "traced": [node.node_name for device in found.RunMetadata("step 2").step_stats.dev_stats
               for node in device.node_stats],
}))
"""


@pytest.mark.skipif(find_spec("tensorboard") is None, reason="TensorBoard is not installed")
def test_tensorboard_reads_the_written_events(tmp_path: Path) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x_in")
        with graph.name_scope("train"):
            summary.scalar("loss", ops.math.mean(x, [0]))
        summary.histogram("x", x)
        merged = summary.merge_all()
    metadata = graphmill.RunMetadata()
    with graphmill.Session(graph=graph) as session, summary.FileWriter(tmp_path, graph) as writer:
        for step in range(3):
            traced = {"options": {"trace_level": "FULL_TRACE"}, "run_metadata": metadata}
            content = session.run(merged, {x: [0.0, step]}, **(traced if step == 2 else {}))
            writer.add_summary(content, step)
        writer.add_run_metadata(metadata, "step 2", 2)
        writer.add_image("digit", np.zeros((8, 6, 1)), 2)
        writer.add_text("note", "a *note*", 2)
    command = [sys.executable, "-W", "ignore", "-c", READER, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["loss"] == [[0, 0.0], [1, 0.5], [2, 1.0]]
    assert (found["histogram"], found["image"], found["text"]) == (2.0, 6, "a *note*")
    assert set(found["nodes"]) == {node.name for node in graph.nodes}
    assert "train/loss" in found["traced"]
    assert found["tags"]["graph"] is True
