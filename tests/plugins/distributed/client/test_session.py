"""A session on a master: requests and responses."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from google.protobuf import text_format

import graphmill
from graphmill import errors, ops, proto
from graphmill.graph.formats.import_export import extend_graph


def test_the_master_is_called_at_the_first_run(master, session) -> None:
    assert master.calls == []
    assert session.run("y:0", {"x:0": [1, 2]}).tolist() == [1, 2]
    assert master.names() == ["CreateSession", "RunStep"]
    (request,) = master.requests("CreateSession")
    assert [node.name for node in request.graph_def.node] == [
        *("x", "y", "twice", "s", "t", "nothing")
    ]
    assert request.target == master.target


def test_the_config_is_sent(master, graph) -> None:
    with graphmill.Session(master.target, graph, {"placement_period": 7}) as session:
        session.run("y:0", {"x:0": [1]})
    assert master.requests("CreateSession")[0].config.placement_period == 7


def test_values_match_those_of_a_local_session(session) -> None:
    with graphmill.Session(graph=session.graph) as local:
        for fetches, feeds in [
            ("y:0", {"x:0": [1.5]}),
            (["twice:0", {"a": "y:0"}, "twice:0"], {"x:0": np.arange(100_000, dtype=np.float32)}),
            ("t:0", {"s:0": b"one\0"}),
            ("t:0", {"s:0": [["a", b"\xff"]]}),
            ("nothing", {}),
        ]:
            remote, here = session.run(fetches, feeds), local.run(fetches, feeds)
            assert repr(remote) == repr(here)


def test_fetched_arrays_may_be_written_into(session) -> None:
    found = session.run("y:0", {"x:0": np.zeros(100_000, np.float32)})
    found[0] = 1
    assert found.base is None


def test_each_fetch_is_sent_once(master, session) -> None:
    session.run(["y:0", "y:0", "twice:0"], {"x:0": [1]})
    (request,) = master.requests("RunStep")
    assert list(request.fetch) == ["y:0", "twice:0"]


def test_a_run_of_targets_fetches_nothing(master, session) -> None:
    assert session.run("nothing") is None
    (request,) = master.requests("RunStep")
    assert (list(request.fetch), list(request.target)) == ([], ["nothing"])


def test_grown_graph_is_extended_by_new_nodes(master, session, graph) -> None:
    session.run("y:0", {"x:0": [1]})
    with graph.as_default():
        ops.math.neg(graph.outputs_of(graph.node("twice"))[0], name="less")
    assert session.run("less:0", {"x:0": [1]}).tolist() == [-2]
    session.run("less:0", {"x:0": [1]})
    assert master.names() == ["CreateSession", "RunStep", "ExtendSession", "RunStep", "RunStep"]
    (request,) = master.requests("ExtendSession")
    assert [node.name for node in request.graph_def.node] == ["less"]
    assert request.current_graph_version == 5
    more = proto.NodeDef(name="more", op="Neg", input=["less"])
    more.attr["T"].type = 1
    session.extend(proto.GraphDef(node=[more]))
    assert session.run("more:0", {"x:0": [1]}).tolist() == [2]
    assert master.requests("ExtendSession")[1].current_graph_version == 6


CLIP = """
    signature {
      name: "clip"
      input_arg { name: "x" type: DT_FLOAT }
      output_arg { name: "y" type: DT_FLOAT }
    }
    node_def {
      name: "y" op: "Relu" input: "x" attr { key: "T" value { type: DT_FLOAT } }
    }
    ret { key: "y" value: "y:activations:0" }
"""
CALL = """
    op: "PartitionedCall"
    input: "x"
    attr { key: "Tin" value { list { type: DT_FLOAT } } }
    attr { key: "Tout" value { list { type: DT_FLOAT } } }
    attr { key: "f" value { func { name: "clip" } } }
"""


def test_functions_are_sent_once(master, graph) -> None:
    graph.library.add(text_format.Parse(CLIP, proto.FunctionDef()))

    def call(name: str) -> None:
        node = text_format.Parse(CALL, proto.NodeDef(name=name))
        extend_graph(graph, proto.GraphDef(node=[node]), graphmill.default_host().ops)

    call("one")
    with graphmill.Session(master.target, graph=graph) as session:
        assert session.run("one:0", {"x:0": [-1]}).tolist() == [0]
        call("two")
        assert session.run("two:0", {"x:0": [3]}).tolist() == [3]
    assert len(master.requests("CreateSession")[0].graph_def.library.function) == 1
    (extension,) = master.requests("ExtendSession")
    assert [node.name for node in extension.graph_def.node] == ["two"]
    assert len(extension.graph_def.library.function) == 0


def test_an_extension_that_fails_changes_nothing(session) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="not unique"):
        session.extend(proto.GraphDef(node=[{"name": "y", "op": "NoOp"}]))
    assert session.run("y:0", {"x:0": [1]}).tolist() == [1]


@pytest.mark.parametrize("value", [[[1.0]], "text", 1j])
def test_feeds_are_checked_as_in_this_process(master, session, value) -> None:
    with graphmill.Session(graph=session.graph) as local, pytest.raises(errors.OpError) as here:
        local.run("y:0", {"x:0": value})
    with pytest.raises(type(here.value)) as remote:
        session.run("y:0", {"x:0": value})
    assert str(remote.value) == str(here.value)
    assert master.requests("RunStep") == []


def test_errors_name_the_node_and_the_master(master, session) -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"placeholder.*'x'") as caught:
        session.run("y:0")
    error = caught.value
    assert (error.node, error.op_type) == ("x", "Placeholder")
    assert error.op is session.graph.get_operation_by_name("x")
    assert f"RunStep at {master.target}" in error.message
    assert session.run("y:0", {"x:0": [1]}).tolist() == [1]


def test_a_session_that_the_master_lost_is_aborted(master, session) -> None:
    session.run("y:0", {"x:0": [1]})
    master._sessions.clear()
    with pytest.raises(errors.AbortedError, match="is not found"):
        session.run("y:0", {"x:0": [1]})


def test_traced_run_returns_metadata(session) -> None:
    metadata = proto.RunMetadata()
    session.run("twice:0", {"x:0": [1]}, options={"trace_level": 3}, run_metadata=metadata)
    assert metadata.step_stats.dev_stats


def test_devices_of_all_tasks_are_listed(session) -> None:
    *_, remote = session.list_devices()
    assert remote.name == "/job:ps/replica:0/task:0/device:CPU:0"
    assert remote.incarnation == 2**64 - 1


def test_partial_runs_go_piece_by_piece(master, session) -> None:
    handle = session.partial_run_setup(["y:0", "t:0"], ["x:0", "s:0"])
    assert session.partial_run(handle, "y:0", {"x:0": [1]}).tolist() == [1]
    with pytest.raises(errors.InvalidArgumentError, match="already been fetched"):
        session.partial_run(handle, "y:0")
    assert session.partial_run(handle, "t:0", {"s:0": "a"}) == b"a"
    with pytest.raises(errors.InvalidArgumentError, match="no partial run"):
        session.partial_run(handle, "t:0")
    assert [r.partial_run_handle for r in master.requests("RunStep")] == [handle] * 3


def test_a_released_partial_run_is_unknown(session) -> None:
    handle = session.partial_run_setup("y:0", ["x:0"])
    session.partial_run_release(handle)
    with pytest.raises(errors.InvalidArgumentError, match="no partial run"):
        session.partial_run(handle, "y:0", {"x:0": [1]})


def test_callables_are_prepared_on_the_master(master, session) -> None:
    call = session.make_callable(["y:0", "y:0", "twice:0"], ["x:0"])
    assert [value.tolist() for value in call([1, 2])] == [[1, 2], [1, 2], [2, 4]]
    assert master.names() == ["CreateSession", "MakeCallable", "RunCallable"]
    with pytest.raises(errors.InvalidArgumentError, match="takes 1 values"):
        call()
    with pytest.raises(errors.InvalidArgumentError, match="Cannot feed value of shape"):
        call([[1]])


def test_callables_from_options_keep_their_connections(session, graph) -> None:
    with graph.as_default():
        ops.array.identity(graph.constant([7.0]), name="seven")
    call = session.make_callable_from_options(
        {
            "fetch": ["twice:0"],
            "tensor_connection": [{"from_tensor": "seven:0", "to_tensor": "x:0"}],
        }
    )
    assert call()[0].tolist() == [14]


def test_callables_with_device_values_are_refused(session) -> None:
    with pytest.raises(errors.UnimplementedError, match="fetch_devices"):
        session.make_callable_from_options({"fetch": ["y:0"], "fetch_devices": {"y:0": "/cpu:0"}})


def test_a_dropped_callable_is_released_when_the_next_is_made(master, session) -> None:
    first = session.make_callable("y:0", ["x:0"])
    second = session.make_callable("y:0", ["x:0"])
    assert master.requests("ReleaseCallable") == []
    del first
    gc.collect()
    third = session.make_callable("twice:0", ["x:0"])
    assert [request.handle for request in master.requests("ReleaseCallable")] == [0]
    assert (second([1]).tolist(), third([1]).tolist()) == ([1], [2])


def test_callable_returns_metadata(session) -> None:
    metadata = proto.RunMetadata()
    call = session.make_callable("twice:0", ["x:0"], options={"trace_level": 3})
    call([1], run_metadata=metadata)
    assert metadata.step_stats.dev_stats


def test_missing_fetch_is_a_master_fault(master, session) -> None:
    master.RunStep = lambda request, data: proto.RunStepResponse(tensor=[{"name": "other:0"}])
    with pytest.raises(errors.InvalidArgumentError, match="dtype"):
        session.run("y:0", {"x:0": [1]})
    master.RunStep = lambda request, data: proto.RunStepResponse(
        tensor=[{"name": "other:0", "tensor": {"dtype": 1}}]
    )
    with pytest.raises(errors.InternalError, match="other:0"):
        session.run("y:0", {"x:0": [1]})


def test_reset_names_containers_and_filters(master) -> None:
    graphmill.reset(master.target, ["mine"], {"device_filters": ["/job:ps"]})
    (request,) = master.requests("Reset")
    assert (list(request.container), list(request.device_filters)) == (["mine"], ["/job:ps"])


@pytest.mark.parametrize(
    "target", ["grpc://", "grpc://host", "grpc://host:x", "grpc://a b:1", "grpc://h:99999"]
)
def test_a_malformed_target_is_refused(target: str) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="malformed target"):
        graphmill.Session(target)


def test_an_unknown_compression_is_refused() -> None:
    config = {"rpc_options": {"compression_algorithm": "zip"}}
    with pytest.raises(errors.InvalidArgumentError, match="'gzip' or 'deflate'"):
        graphmill.Session("grpc://127.0.0.1:1", config=config)


def test_requests_may_be_compressed(master, graph) -> None:
    config = {"rpc_options": {"compression_algorithm": "gzip"}}
    with graphmill.Session(master.target, graph, config) as session:
        assert session.run("y:0", {"x:0": [1] * 1000}).tolist() == [1] * 1000


def test_messages_above_the_limit_of_grpc_are_sent(session) -> None:
    value = np.zeros(2_000_000, np.float32)  # 8 MB; gRPC's own limit is 4 MB
    assert session.run("y:0", {"x:0": value}).shape == value.shape
