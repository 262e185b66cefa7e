"""DebugIdentityV3 writes the watched tensor to the expected files."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill.proto import event_pb2
from graphmill.runtime.debug_sinks import WatchedTensor, write_event
from graphmill.testing.case import parse_cases
from graphmill.testing.case_graph import case_graph

CASE = """
[[DebugIdentityV3]]
feed = {{ x = "float32[2]" }}
nodes = ["y = OP(x, tensor_name='a/b:0', \
io_of_node='a/c', is_input=True, io_index=3, debug_urls=['{url}'])"]
run = ["y"]
"""
CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


@pytest.mark.parametrize(
    ("dump_name", "expected"),
    [
        ("", "_tfdbg_device_,job_localhost,replica_0,task_0,device_CPU_0/a/b_0_DebugIdentityV3_"),
        ("node-io-dump/step-7/a-c:in:3", "node-io-dump/step-7/a-c:in:3_"),
    ],
)
def test_file_of_a_watched_tensor_has_the_name_that_tfdbg_gives_it(tmp_path, dump_name, expected):
    value = np.array([1, 2], np.float32)
    path = write_event(WatchedTensor("a/b:0", "DebugIdentityV3", CPU, value, dump_name), tmp_path)
    assert path.relative_to(tmp_path).as_posix().startswith(expected)
    (summary,) = event_pb2.Event.FromString(path.read_bytes()).summary.value
    assert summary.node_name == "a/b:0:DebugIdentityV3"
    assert summary.tensor.tensor_content == value.tobytes()


def test_kernel_names_the_file_after_the_input_of_a_node(graphmill_host, tmp_path):
    text = CASE.format(url=f"file://{tmp_path}")
    (case,) = parse_cases(text, "t")
    graph = case_graph(case, graphmill_host.ops)
    value = np.array([1, 2], np.float32)
    with graphmill.Session(graph=graph.graph_def, host=graphmill_host) as session:
        got = session.run("y:0", {next(iter(graph.feeds)): value})
    assert got.tolist() == [1, 2]
    (file,) = (tmp_path / "node-io-dump").rglob("a-c:in:3_*")
    assert file.parent.name.startswith("step-")
