"""Debug watches (clause P6) write tensors of a step to tfdbg's files or pass them to a callback."""

from __future__ import annotations

import json

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops, proto
from graphmill.ops.tensor_proto import tensor_proto_to_numpy
from graphmill.proto import event_pb2
from graphmill.session import direct_session


@pytest.fixture
def graph():
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        y = ops.math.log(x, name="layer/y")
        ops.math.neg(y, name="out")
    return graph


@pytest.fixture
def host():
    return graphmill.Host()


def watching(node, *debug_ops, url="callback://seen", slot=0, tolerate=False):
    options = proto.RunOptions()
    options.debug_options.debug_tensor_watch_opts.add(
        node_name=node,
        output_slot=slot,
        debug_ops=debug_ops,
        debug_urls=[url],
        tolerate_debug_op_creation_failures=tolerate,
    )
    return options


def test_p6_a_watched_tensor_is_shown_to_a_callback(graph, host) -> None:
    seen = []
    host.debug_callbacks["seen"] = seen.append
    with graphmill.Session(graph=graph, host=host) as session:
        options = watching("layer/y", "DebugIdentity", "DebugNanCount")
        result = session.run("out:0", {"x:0": [1.0, -1.0]}, options=options)
        assert np.isnan(result[1])
        session.run("out:0", {"x:0": [1.0, 1.0]})  # without watches nothing is shown
    shown = {watched.debug_op: watched for watched in seen}
    assert len(seen) == 2
    np.testing.assert_array_equal(shown["DebugIdentity"].value, [0.0, np.nan])
    assert shown["DebugNanCount"].value == 1
    assert shown["DebugIdentity"].node_name == "layer/y"
    assert shown["DebugIdentity"].device.endswith("CPU:0")


def test_p6_files_have_the_layout_of_tfdbg(graph, host, tmp_path) -> None:
    with graphmill.Session(graph=graph, host=host) as session:
        options = watching("layer/y", "DebugIdentity", url=f"file://{tmp_path}")
        for _ in range(2):
            session.run("out:0", {"x:0": [1.0]}, options=options)
    folder = tmp_path / "_tfdbg_device_,job_localhost,replica_0,task_0,device_CPU_0" / "layer"
    files = sorted(folder.iterdir())
    assert len(files) == 2
    assert all(file.name.startswith("y_0_DebugIdentity_") for file in files)
    event = event_pb2.Event.FromString(files[0].read_bytes())
    (value,) = event.summary.value
    assert value.node_name == "layer/y:0:DebugIdentity"
    np.testing.assert_array_equal(tensor_proto_to_numpy(value.tensor), [0.0])


def test_graph_and_description_of_each_step_are_written(graph, host, tmp_path) -> None:
    options = watching("layer/y", "DebugIdentity", url=f"file://{tmp_path}")
    options.debug_options.global_step = 7
    with graphmill.Session(graph=graph, host=host) as session:
        for _ in range(2):
            session.run("out:0", {"x:0": [1.0]}, options=options)
    descriptions = [
        json.loads(event_pb2.Event.FromString(file.read_bytes()).log_message.message)
        for file in sorted(tmp_path.glob("_tfdbg_core_metadata_sessionrun*"))
    ]
    assert [step.pop("executor_step_index") for step in descriptions] == [0, 1]
    assert descriptions[0].pop("session_run_index") < descriptions[1].pop("session_run_index")
    names = {"input_names": ["x:0"], "output_names": ["out:0"], "target_nodes": []}
    assert descriptions == [{"global_step": 7, **names}] * 2
    (file,) = tmp_path.glob("_tfdbg_device_*/_tfdbg_graph_hash*")
    message = proto.GraphDef.FromString(event_pb2.Event.FromString(file.read_bytes()).graph_def)
    assert {"layer/y", "__copy_layer/y_0"} <= {node.name for node in message.node}


def test_watches_write_no_more_bytes_than_they_may(graph, host, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TFDBG_DISK_BYTES_LIMIT", "100")
    options = watching("layer/y", "DebugIdentity", url=f"file://{tmp_path}")
    options.debug_options.reset_disk_byte_usage = True
    feeds = {"x:0": np.ones(15)}  # 60 bytes
    with graphmill.Session(graph=graph, host=host) as session:
        for _ in range(2):
            session.run("out:0", feeds, options=options)
        options.debug_options.reset_disk_byte_usage = False
        with pytest.raises(errors.ResourceExhaustedError, match="allowance of 100 bytes"):
            session.run("out:0", feeds, options=options)


def test_a_folder_that_cannot_be_written_is_a_typed_error(graph, host, tmp_path) -> None:
    taken = tmp_path / "file"
    taken.write_text("")
    options = watching("layer/y", "DebugIdentity", url=f"file://{taken}")
    with graphmill.Session(graph=graph, host=host) as session, pytest.raises(errors.OpError):
        session.run("out:0", {"x:0": [1.0]}, options=options)


def test_p6_a_numeric_summary_counts_kinds_of_numbers(graph, host) -> None:
    seen = []
    host.debug_callbacks["seen"] = seen.append
    with graphmill.Session(graph=graph, host=host) as session:
        options = watching("x", "DebugNumericSummary(lower_bound=-5;upper_bound=5)")
        options.debug_options.debug_tensor_watch_opts[0].node_name = "out"
        session.run("out:0", {"x:0": [1.0, 0.0, -1.0, np.e]}, options=options)
    (watched,) = seen
    counts = watched.value[:8].tolist()
    assert counts == [1.0, 4.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0]


def test_p6_all_nodes_and_slots_can_be_watched(graph, host) -> None:
    seen = []
    host.debug_callbacks["seen"] = seen.append
    with graphmill.Session(graph=graph, host=host) as session:
        options = watching("*", "DebugIdentity", slot=-1)
        session.run("out:0", {"x:0": [1.0]}, options=options)
    assert {watched.node_name for watched in seen} == {"layer/y", "out"}


def test_p6_partial_runs_may_be_watched(graph, host) -> None:
    seen = []
    host.debug_callbacks["seen"] = seen.append
    with graphmill.Session(graph=graph, host=host) as session:
        options = watching("layer/y", "DebugIdentity")
        handle = session.partial_run_setup("out:0", ["x:0"], options=options)
        session.partial_run(handle, "out:0", {"x:0": [1.0]})
    assert [watched.node_name for watched in seen] == ["layer/y"]


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        (watching("layr/y", "DebugIdentity"), errors.NotFoundError, "did you mean 'layer/y'"),
        (watching("layer/y", "DebugIdentity", slot=3), errors.NotFoundError, "output 3"),
        (watching("layer/y", "DebugNothing"), errors.FailedPreconditionError, "DebugNothing"),
        (watching("layer/y", "Debug(Identity"), errors.FailedPreconditionError, "malformed"),
        (watching("layer/y", "DebugIdentity", url="ftp://x"), errors.InvalidArgumentError, "ftp"),
        (watching("layer/y", "DebugIdentity", url="callback://no"), errors.NotFoundError, "'no'"),
    ],
)
def test_p6_invalid_debug_watch_is_reported_and_session_survives(
    graph, host, options, error, match
) -> None:
    with graphmill.Session(graph=graph, host=host) as session:
        with pytest.raises(error, match=match):
            session.run("out:0", {"x:0": [1.0]}, options=options)
        assert session.run("out:0", {"x:0": [1.0]}) == [0.0]


def test_p6_a_tolerant_watch_is_left_out(graph, host) -> None:
    with graphmill.Session(graph=graph, host=host) as session:
        for options in (
            watching("nowhere", "DebugIdentity", tolerate=True),
            watching("layer/y", "DebugNothing", tolerate=True),
        ):
            assert session.run("out:0", {"x:0": [1.0]}, options=options) == [0.0]


def test_s5_p6_executors_of_old_watches_are_dropped(graph, host, monkeypatch) -> None:
    """The executors of old watches are dropped, because a debugger may change watches each step."""
    monkeypatch.setattr(direct_session, "MAX_VARIANTS", 2)
    host.debug_callbacks["seen"] = lambda watched: None
    with graphmill.Session(graph=graph, host=host) as session:
        for debug_op in ("DebugIdentity", "DebugNanCount", "DebugNumericSummary") * 2:
            session.run("out:0", {"x:0": [1.0]}, options=watching("layer/y", debug_op))
            assert len(session._impl._variant_caches) <= 2


def test_a_watch_of_a_node_that_the_step_does_not_run_is_skipped(graph, host) -> None:
    seen = []
    host.debug_callbacks["seen"] = seen.append
    with graphmill.Session(graph=graph, host=host) as session:
        options = watching("out", "DebugIdentity")
        assert session.run("layer/y:0", {"x:0": [1.0]}, options=options) == 0
        assert seen == []
        session.run("out:0", {"x:0": [1.0]}, options=options)
    assert [watched.node_name for watched in seen] == ["out"]


@pytest.mark.parametrize(("name", "slot"), [("layer/y", 0), ("layer/y:0", 0), ("z:3", 3)])
def test_p6_the_slot_of_a_debug_op_may_be_left_out(host, name, slot) -> None:
    seen = []
    host.debug_callbacks["seen"] = seen.append
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        attrs = {"tensor_name": name, "debug_urls": ["callback://seen"]}
        graph.create_op("DebugIdentity", [x], attrs, name="shown")
    with graphmill.Session(graph=graph, host=host) as session:
        assert session.run("shown:0", {"x:0": 2}) == 2
    assert [(watched.node_name, watched.output_slot) for watched in seen] == [
        (name.partition(":")[0], slot)
    ]


def test_watches_of_a_model_under_rules_call_callbacks(graph, host) -> None:
    seen = []
    host.debug_callbacks["seen"] = seen.append
    message = graph.as_graph_def()
    with graphmill.Session(graph=message, host=host, trust=False) as session:
        assert session.allowed == ()
        session.run("out:0", {"x:0": [1.0]}, options=watching("out", "DebugIdentity"))
    assert [watched.node_name for watched in seen] == ["out"]


def test_watches_of_a_model_under_rules_need_one_for_files(graph, host, tmp_path) -> None:
    options = watching("out", "DebugIdentity", url=f"file://{tmp_path}/dump")
    message = graph.as_graph_def()
    with graphmill.Session(graph=message, host=host, trust=False) as session:
        with pytest.raises(graphmill.errors.PermissionDeniedError, match=r"fs\.write"):
            session.run("out:0", {"x:0": [1.0]}, options=options)
        assert not (tmp_path / "dump").exists()
        with session.allowing(f"fs.write:{tmp_path}"):
            session.run("out:0", {"x:0": [1.0]}, options=options)
    assert list((tmp_path / "dump").rglob("out_0_DebugIdentity_*"))
