"""DebugIdentityV2: the files of a dump folder, and the records of tensors."""

from __future__ import annotations

import io

import numpy as np
import pytest

import graphmill
from graphmill import proto
from graphmill.errors import InternalError
from graphmill.ops.tensor_proto import tensor_proto_to_numpy
from graphmill.spi.files import read_record

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"


def _session(graphmill_host, *urls, nodes=("n",), **attrs):
    graph = graphmill.Graph(ops=graphmill_host.ops)
    with graph.as_default():
        x = graph.placeholder("float32", None, name="x")
        for name in nodes:
            options = {"debug_urls": urls, "op_name": f"scope/{name}", **attrs}
            graph.create_op("DebugIdentityV2", [x], options, name=name)
    return graphmill.Session(graph=graph, host=graphmill_host)


def _events(folder, suffix):
    (path,) = folder.glob(f"tfdbg_events.*.{suffix}")
    stream = io.BytesIO(path.read_bytes())
    return [
        proto.DebugEvent.FromString(record) for record in iter(lambda: read_record(stream), None)
    ]


def _values(folder):
    traces = [event.graph_execution_trace for event in _events(folder, "graph_execution_traces")]
    return [tensor_proto_to_numpy(trace.tensor_proto).tolist() for trace in traces]


def test_tensor_is_recorded_and_returned(graphmill_host, tmp_path):
    attrs = {"circular_buffer_size": 0, "tfdbg_context_id": "c", "output_slot": 2}
    value = np.array([[1, 2]], np.float32)
    with _session(
        graphmill_host, f"file://{tmp_path}", tensor_debug_mode=7, tfdbg_run_id="r", **attrs
    ) as session:
        assert session.run("n:0", {"x:0": value}).tolist() == value.tolist()
        (event,) = _events(tmp_path, "graph_execution_traces")
    trace = event.graph_execution_trace
    assert (trace.op_name, trace.output_slot, trace.tensor_debug_mode) == ("scope/n", 2, 7)
    assert (trace.tfdbg_context_id, trace.device_name) == ("c", CPU)
    assert tensor_proto_to_numpy(trace.tensor_proto).tolist() == value.tolist()
    (metadata,) = _events(tmp_path, "metadata")
    assert metadata.debug_metadata.file_version == "debug.Event:1"
    assert metadata.debug_metadata.tfdbg_run_id == "r"
    assert not _events(tmp_path, "graphs")


def test_last_tensors_are_written_when_the_session_is_closed(graphmill_host, tmp_path):
    with _session(graphmill_host, f"file://{tmp_path}", circular_buffer_size=2) as session:
        for number in range(4):
            session.run("n", {"x:0": np.float32(number)})
        assert not _values(tmp_path)
    assert _values(tmp_path) == [2, 3]


def test_nodes_share_the_files_of_a_folder(graphmill_host, tmp_path):
    folders = [tmp_path / "a", tmp_path / "b"]
    urls = [f"file://{folder}" for folder in folders]
    with _session(graphmill_host, *urls, nodes=("m", "n"), circular_buffer_size=-1) as session:
        session.run(["m", "n"], {"x:0": np.float32(5)})
    assert [_values(folder) for folder in folders] == [[5, 5], [5, 5]]


def test_other_urls_are_refused(graphmill_host):
    with (
        _session(graphmill_host, "grpc://host:1") as session,
        pytest.raises(InternalError, match="Unsupported debug URL schema in: grpc://host:1"),
    ):
        session.run("n", {"x:0": np.float32(1)})
