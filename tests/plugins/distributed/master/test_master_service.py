"""Calls of a client over gRPC, as TensorFlow's client makes them."""

from __future__ import annotations

import threading

import pytest
from tests.plugins.distributed.served_master import (
    ARITHMETIC,
    COUNTER,
    QUEUES,
    TIMEOUT,
    F,
    MasterClient,
    const,
    graph_def,
    status_of,
)

import graphmill
from graphmill import errors, proto
from graphmill.ops.tensor_proto import tensor_proto_to_numpy
from graphmill_plugins.distributed.master.master_session import MasterSession


def body_error(client: MasterClient, *arguments, **fields) -> tuple[int, str]:
    request = client.run_request(*arguments, store_errors_in_response_body=True, **fields)
    response = client.call("RunStep", request)
    return response.status_code, response.status_error_message


def extend(client: MasterClient, handle: str, graph, version: int) -> int:
    request = proto.ExtendSessionRequest(
        session_handle=handle, graph_def=graph, current_graph_version=version
    )
    return client.call("ExtendSession", request).new_graph_version


def close(client: MasterClient, handle: str) -> None:
    client.call("CloseSession", proto.CloseSessionRequest(session_handle=handle))


def test_a_session_is_made_run_extended_and_closed(client):
    handle = client.create(ARITHMETIC)
    assert client.run(handle, ["y:0"], {"x:0": [1.0, 3.0]}) == [[1, 9]]
    assert extend(client, handle, graph_def(const("c", 5)), 0) == 1
    assert client.run(handle, ["c:0", "y:0"], {"x:0": [1.0, 2.0]}) == [5, [1, 4]]
    close(client, handle)
    assert status_of(lambda: client.run(handle, ["c:0"]))[0] == "ABORTED"


def test_fetches_are_answered_by_name_in_order(client):
    handle = client.create(graph_def(const("a", 1), const("b", b"two")))
    response = client.call("RunStep", client.run_request(handle, ["b:0", "a:0"]))
    assert [tensor.name for tensor in response.tensor] == ["b:0", "a:0"]
    assert tensor_proto_to_numpy(response.tensor[0].tensor).tolist() == b"two"


def test_a_stale_version_is_aborted_and_changes_nothing(client):
    handle = client.create(ARITHMETIC)
    more = graph_def(const("c", 5))
    code, message = status_of(lambda: extend(client, handle, more, 3))
    assert code == "ABORTED"
    assert "Current version is 0 but caller expected 3" in message
    assert extend(client, handle, more, 0) == 1


def test_a_name_that_exists_is_invalid_and_changes_nothing(client):
    handle = client.create(ARITHMETIC)
    both = graph_def(const("new", 1), const("x", 2))
    assert status_of(lambda: extend(client, handle, both, 0))[0] == "INVALID_ARGUMENT"
    assert body_error(client, handle, ["new:0"])[0] in {
        errors.NOT_FOUND,
        errors.INVALID_ARGUMENT,
    }
    assert extend(client, handle, graph_def(const("new", 7)), 0) == 1
    assert client.run(handle, ["new:0"]) == [7]


def test_errors_are_in_the_body_on_request(client):
    handle = client.create(ARITHMETIC)
    code, message = body_error(client, handle, ["y:0"])
    assert code == errors.INVALID_ARGUMENT
    assert message.endswith("\n\t [[{{node x}}]]")
    assert status_of(lambda: client.run(handle, ["y:0"]))[0] == "INVALID_ARGUMENT"


def test_an_unknown_session_is_aborted_everywhere(client):
    code, message = body_error(client, "nobody", ["y:0"])
    assert code == errors.ABORTED
    assert message.startswith("Session nobody is not found. It was closed or reset")
    for name in ("ExtendSession", "CloseSession", "ListDevices", "MakeCallable", "RunCallable",
                 "ReleaseCallable", "PartialRunSetup"):  # fmt: skip
        request = getattr(proto, f"{name}Request")(session_handle="nobody")
        code, message = status_of(lambda n=name, r=request: client.call(n, r))
        assert (code, "Session nobody is not found" in message) == ("ABORTED", True), name


def test_variables_are_shared_by_sessions_and_outlive_them(client):
    first = client.create(COUNTER)
    client.run(first, targets=["init"])
    client.run(first, targets=["add"])
    second = client.create(COUNTER)
    assert client.run(second, ["value:0"]) == [1]
    close(client, first)
    assert client.run(second, ["value:0"]) == [1]


def test_isolated_sessions_have_variables_of_their_own(client):
    shared = client.create(COUNTER)
    client.run(shared, targets=["init"])
    isolated = client.create(COUNTER, isolate_session_state=True)
    assert body_error(client, isolated, ["value:0"])[0] == errors.FAILED_PRECONDITION
    client.run(isolated, targets=["init"])
    client.run(isolated, targets=["add"])
    assert client.run(shared, ["value:0"]) == [0]
    close(client, isolated)
    assert client.run(shared, ["value:0"]) == [0]


def test_reset_clears_containers_and_closes_sessions(client):
    handle = client.create(COUNTER)
    client.run(handle, targets=["init"])
    client.call("Reset", proto.ResetRequest())
    assert status_of(lambda: client.run(handle, ["value:0"]))[0] == "ABORTED"
    fresh = client.create(COUNTER)
    assert body_error(client, fresh, ["value:0"])[0] == errors.FAILED_PRECONDITION


def test_clients_meet_at_a_queue(server, client):
    with MasterClient(server.target) as other:
        taker, giver = client.create(QUEUES), other.create(QUEUES)
        waiting = client.future("RunStep", client.run_request(taker, ["wait:0"]))
        other.run(giver, ["has_started:0"])
        other.run(giver, targets=["go_on"])
        assert waiting.result().tensor[0].name == "wait:0"


@pytest.mark.parametrize("method", ["CloseSession", "Reset"])
def test_close_and_reset_cancel_running_steps(client, method):
    handle = client.create(QUEUES)
    request = client.run_request(handle, ["wait:0"], store_errors_in_response_body=True)
    waiting = client.future("RunStep", request)
    client.run(handle, ["has_started:0"])
    fields = {"session_handle": handle} if method == "CloseSession" else {}
    client.call(method, getattr(proto, f"{method}Request")(**fields))
    response = waiting.result()
    assert response.status_code == errors.CANCELLED
    assert "Step was cancelled by an explicit call to `Session::Close()`." in (
        response.status_error_message
    )


def test_a_client_that_is_gone_cancels_its_step_alone(client, monkeypatch):
    ended = threading.Event()
    failures = []
    whole_step = MasterSession.step

    def step(self, *arguments):
        try:
            return whole_step(self, *arguments)
        except errors.OpError as error:
            failures.append(error)
            ended.set()
            raise

    handle = client.create(QUEUES)
    stays = client.future("RunStep", client.run_request(handle, ["wait:0"]))
    client.run(handle, ["has_started:0"])
    monkeypatch.setattr(MasterSession, "step", step)
    goes = client.future("RunStep", client.run_request(handle, ["wait:0"]))
    client.run(handle, ["has_started:0"])
    goes.cancel()
    assert ended.wait(TIMEOUT)
    assert [type(error) for error in failures] == [errors.AbortedError]
    assert "its client disconnected" in str(failures[0])
    client.run(handle, targets=["go_on"])
    assert stays.result().tensor[0].name == "wait:0"


def test_a_client_that_is_gone_ends_its_partial_run(client, monkeypatch):
    ended = threading.Event()
    whole_step = MasterSession.step

    def step(self, *arguments):
        try:
            return whole_step(self, *arguments)
        finally:
            ended.set()

    handle = client.create(QUEUES)
    setup = proto.PartialRunSetupRequest(session_handle=handle, feed=["one:0"], fetch=["wait:0"])
    partial = client.call("PartialRunSetup", setup).partial_run_handle
    monkeypatch.setattr(MasterSession, "step", step)
    piece = client.run_request(
        handle, ["wait:0"], {"one:0": 1.0}, partial_run_handle=partial, request_id=3
    )
    future = client.future("RunStep", piece)
    started = client.create(QUEUES)
    client.run(started, ["has_started:0"])
    ended.clear()  # that of the step before
    future.cancel()
    assert ended.wait(TIMEOUT)
    assert body_error(client, handle, ["wait:0"], partial_run_handle=partial)[0] == (
        errors.INVALID_ARGUMENT
    )


def test_a_repeated_request_is_run_once(client):
    handle = client.create(COUNTER)
    client.run(handle, targets=["init"])
    for _ in range(3):
        assert client.run(handle, ["read:0"], request_id=42) == [1]
    assert client.run(handle, ["read:0"], request_id=43) == [2]


def test_a_timeout_ends_a_step_alone(client):
    handle = client.create(QUEUES)
    options = proto.RunOptions(timeout_in_ms=50)
    code, _ = body_error(client, handle, ["wait:0"], options=options)
    assert code == errors.DEADLINE_EXCEEDED
    assert client.run(handle, ["one:0"]) == [1]


def test_a_partial_run_is_fed_and_fetched_piece_by_piece(client):
    placeholder = {"dtype": F}
    graph = graph_def(
        ("a", "Placeholder", [], placeholder),
        ("b", "Placeholder", [], placeholder),
        ("c", "Neg", ["a"], {"T": F}),
        ("d", "Mul", ["c", "b"], {"T": F}),
    )
    handle = client.create(graph)
    setup = proto.PartialRunSetupRequest(
        session_handle=handle, feed=["a:0", "b:0"], fetch=["c:0", "d:0"]
    )
    partial = {"partial_run_handle": client.call("PartialRunSetup", setup).partial_run_handle}
    assert client.run(handle, ["c:0"], {"a:0": 2.0}, **partial) == [-2]
    for feeds, fetch in (({"a:0": 2.0}, "d:0"), ({}, "c:0"), ({"e:0": 1.0}, "d:0")):
        assert body_error(client, handle, [fetch], feeds, **partial)[0] == errors.INVALID_ARGUMENT
    assert client.run(handle, ["d:0"], {"b:0": 5.0}, **partial) == [-10]
    assert body_error(client, handle, ["d:0"], **partial)[0] == errors.INVALID_ARGUMENT


def test_a_callable_is_made_run_and_released(client):
    handle = client.create(ARITHMETIC)
    options = proto.CallableOptions(feed=["x:0"], fetch=["y:0"])
    make = proto.MakeCallableRequest(session_handle=handle, options=options, request_id=5)
    number = client.call("MakeCallable", make).handle
    assert (number, client.call("MakeCallable", make).handle) == (0, 0), "one request"
    run = proto.RunCallableRequest(session_handle=handle, handle=number)
    run.feed.add(dtype=F.enum, float_val=[2, 3]).tensor_shape.dim.add(size=2)
    response = client.call("RunCallable", run)
    assert [tensor_proto_to_numpy(tensor).tolist() for tensor in response.fetch] == [[4, 9]]
    run.feed.add(dtype=F.enum)
    assert status_of(lambda: client.call("RunCallable", run))[0] == "INVALID_ARGUMENT"
    release = proto.ReleaseCallableRequest(session_handle=handle, handle=number)
    client.call("ReleaseCallable", release)
    code, message = status_of(lambda: client.call("RunCallable", run))
    assert (code, "after handle was released" in message) == ("INVALID_ARGUMENT", True)


def test_step_is_measured_on_request(client):
    handle = client.create(ARITHMETIC)
    feeds = {"x:0": [1.0, 2.0]}
    plain = client.call("RunStep", client.run_request(handle, ["y:0"], feeds))
    assert not plain.HasField("metadata")
    options = proto.RunOptions(
        trace_level=proto.RunOptions.FULL_TRACE, output_partition_graphs=True
    )
    traced = client.call("RunStep", client.run_request(handle, ["y:0"], feeds, options=options))
    nodes = [node.node_name for d in traced.metadata.step_stats.dev_stats for node in d.node_stats]
    assert "y" in nodes
    assert "y" in [node.name for node in traced.metadata.partition_graphs[0].node]


def test_devices_bear_the_name_of_the_task():
    with (
        graphmill.Server({"ps": {3: "127.0.0.1:0"}}, "ps", 3) as server,
        MasterClient(server.target) as client,
    ):
        handle = client.create(graph_def(const("c", 1)))
        lists = [
            client.call("ListDevices", proto.ListDevicesRequest(session_handle=of))
            for of in ("", handle)
        ]
    assert lists[0] == lists[1]
    first = lists[0].local_device[0]
    assert first.name == "/job:ps/replica:0/task:3/device:CPU:0"
    assert first.incarnation
    assert not lists[0].remote_device


def test_the_config_of_the_server_holds_for_its_sessions():
    config = proto.ConfigProto()
    config.graphmill.forbid_effects.append("fs.read")
    graph = graph_def(const("name", b"/etc/hostname"), ("read", "ReadFile", ["name"], {}))
    with graphmill.Server(config=config) as server, MasterClient(server.target) as client:
        handle = client.create(graph)
        code, message = body_error(client, handle, ["read:0"])
    assert (code, "fs.read" in message) == (errors.PERMISSION_DENIED, True)


def test_malformed_settings_are_refused():
    config = proto.ConfigProto()
    settings = config.graph_options.rewrite_options.custom_optimizers.add(name="distributed")
    settings.parameter_map["idle_session_seconds"].f = -1
    with pytest.raises(errors.InvalidArgumentError, match="idle_session_seconds"):
        graphmill.Server(config=config)
