"""Sessions whose graphs run on two tasks: values, variables, control flow, errors, faults."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.distributed.master.conftest import Master, run
from tests.unit.distributed.worker.conftest import cpu, task

import graphmill
from graphmill import errors, ops, proto
from graphmill.distributed.master.cluster_session import ClusterSession
from graphmill.distributed.master.local_worker import LocalWorker
from graphmill.runtime.steps.cancellation import CancellationManager
from graphmill.testing.timeouts import within

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

F32 = graphmill.float32


def there_and_back() -> Any:
    """Return `y = -(-x * 2)`, doubled on another task."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder(F32, name="x")
        with graph.device(task(1)):
            doubled = ops.math.mul(ops.math.neg(x), graph.constant(2.0), name="doubled")
        ops.math.neg(doubled, name="y")
    return graph


def test_values_cross_tasks_in_each_step(master: Master) -> None:
    session = master.session(there_and_back())
    for x in (1.0, 2.5, -3.0):
        assert run(session, ["y:0"], {"x:0": x}) == [2 * x]
    assert run(session, ["doubled:0", "y:0", "doubled:0"], {"x:0": 3.0}) == [-6, 6, -6]
    assert len(master.workers[1].requests("register_graph")) == 2
    assert len(master.workers[1].requests("cleanup_graph")) == 4
    assert all(len(worker.rendezvous) == 0 for worker in master.cluster.workers)


def test_all_tasks_run_under_one_step_id_of_57_bits(master: Master) -> None:
    session = master.session(there_and_back())
    run(session, ["y:0"], {"x:0": 1.0})
    run(session, ["y:0"], {"x:0": 1.0})
    first, second = (
        [call.step_id for call in worker.requests("run_graph")] for worker in master.workers
    )
    assert first == second
    assert len(set(first)) == 2
    assert all(1 << 56 <= step_id < 1 << 57 for step_id in first)


def test_registered_graph_is_placed_and_named_once(master: Master) -> None:
    session = master.session(there_and_back())
    run(session, ["y:0"], {"x:0": 1.0})
    run(session, ["doubled:0"], {"x:0": 1.0})
    names: list[str] = []
    for number, worker in enumerate(master.workers):
        for request in worker.requests("register_graph"):
            assert request.create_worker_session_called
            assert request.session_handle == session.handle
            nodes = request.graph_def.node
            assert {node.device for node in nodes} == {cpu(number)}
            assert not any("_never_dead" in node.attr for node in nodes)
            names += [node.name for node in nodes if not session.graph.has_node(node.name)]
    assert names
    assert len(names) == len(set(names))


def test_a_fed_tensor_can_be_fetched(master: Master) -> None:
    session = master.session(there_and_back())
    assert run(session, ["doubled:0", "y:0", "x:0"], {"doubled:0": 4.0, "x:0": 1.0}) == [4, -4, 1]


def test_variables_live_on_their_task(master: Master) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        with graph.device(task(1)):
            v = ops.state.variable_v2(shape=[2], dtype="float32", name="v")
        start = graph.constant(np.float32([1, 2]))
        ops.state.assign(v, start, name="init")
        ops.state.assign_add(v, start, name="add")
        ops.math.neg(v, name="y")
    session = master.session(graph)
    with pytest.raises(errors.FailedPreconditionError, match=f"From {task(1)}:\n"):
        run(session, ["y:0"])
    run(session, targets=["init"])
    run(session, targets=["add"])
    (value,) = run(session, ["v:0"])
    value[:] = 0  # the caller's own
    np.testing.assert_array_equal(run(session, ["y:0"])[0], [-2, -4])
    other = master.session(graph)
    np.testing.assert_array_equal(run(other, ["y:0"])[0], [-2, -4])
    isolated = master.session(graph, isolate_session_state=True)
    with pytest.raises(errors.FailedPreconditionError):
        run(isolated, ["y:0"])
    session.reset([])
    with pytest.raises(errors.FailedPreconditionError):
        run(master.session(graph), ["y:0"])


@pytest.mark.parametrize("devices", [(cpu(0), cpu(1)), (cpu(1), cpu(0)), (cpu(1), cpu(1))])
def test_loops_run_on_two_tasks(master: Master, devices: tuple[str, str]) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        n = graph.placeholder(F32, shape=[], name="n")
        with graph.device(devices[0]):
            enter = ops.control_flow.enter(graph.constant(0.0), frame_name="w")
            limit = ops.control_flow.enter(n, frame_name="w", is_constant=True)
            merge = ops.control_flow.merge([enter, enter]).output
            cond = ops.control_flow.loop_cond(ops.math.less(merge, limit))
            switch = ops.control_flow.switch(merge, cond)
            with graph.device(devices[1]):
                one = ops.control_flow.enter(graph.constant(1.0), frame_name="w", is_constant=True)
                added = ops.math.add_v2(switch.output_true, one)
            following = ops.control_flow.next_iteration(added)
            graph.replace_input(merge.op, 1, following.op, 0)
            ops.control_flow.exit(switch.output_false, name="y")
    session = master.session(graph)
    for count in (0, 1, 7, 30):
        assert run(session, ["y:0"], {"n:0": count}) == [count]


def test_dead_tensors_cross_tasks(master: Master) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        p = graph.placeholder(graphmill.bool, name="p")
        switch = ops.control_flow.switch(graph.constant(3.0), p)
        with graph.device(task(1)):
            yes = ops.math.square(switch.output_true, name="yes")
        ops.control_flow.merge([ops.math.neg(switch.output_false), yes], name="y")
    session = master.session(graph)
    assert run(session, ["y:0"], {"p:0": True}) == [9]
    assert run(session, ["y:0"], {"p:0": False}) == [-3]
    with pytest.raises(errors.InvalidArgumentError, match="is dead"):
        run(session, ["yes:0"], {"p:0": False})
    assert run(session, ["yes:0"], {"p:0": True}) == [9]


def failing() -> Any:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder(F32, name="x")
        with graph.device(task(1)):
            bad = ops.array.check_numerics(x, message="no number", name="bad")
        ops.math.neg(bad, name="y")
    return graph


def test_root_cause_names_its_task_and_step_is_cleaned_up(master: Master) -> None:
    session = master.session(failing())
    for _ in range(20):
        with pytest.raises(errors.InvalidArgumentError) as caught:
            run(session, ["y:0"], {"x:0": np.nan})
        assert caught.value.message.startswith(f"From {task(1)}:\n")
        assert "no number" in caught.value.message
        assert caught.value.node == "bad"
        assert not caught.value.is_derived
    for worker, real in zip(master.workers, master.cluster.workers, strict=True):
        assert len(worker.requests("cleanup_graph")) == 20
        assert len(real.rendezvous) == 0
    assert run(session, ["y:0"], {"x:0": 2.0}) == [-2]


def test_invalid_names_and_feeds_fail_before_sending(master: Master) -> None:
    session = master.session(there_and_back())
    with pytest.raises(errors.NotFoundError, match="fetch 'z' does not exist"):
        run(session, ["z:0"])
    with pytest.raises(errors.InvalidArgumentError):
        run(session, ["y:0"], {"x:0": "text"})
    assert not master.workers[0].requests("run_graph")


def test_graph_refused_by_one_task_is_deregistered_everywhere(master: Master) -> None:
    session = master.session(there_and_back())
    master.workers[1].is_lost = True
    with pytest.raises(errors.UnavailableError, match=f"From {task(1)}:\nSocket closed"):
        run(session, ["y:0"], {"x:0": 1.0})
    assert len(master.workers[0].requests("deregister_graph")) == 1
    master.workers[1].is_lost = False
    assert run(session, ["y:0"], {"x:0": 1.0}) == [2]


def test_lost_worker_fails_the_step_on_all_tasks(master: Master) -> None:
    session = master.session(there_and_back())
    run(session, ["y:0"], {"x:0": 1.0})
    master.workers[1].is_lost = True
    with pytest.raises(errors.UnavailableError, match=f"From {task(1)}:\n"):
        run(session, ["y:0"], {"x:0": 1.0})
    assert len(master.cluster.workers[0].rendezvous) == 0
    session.close()


def test_a_restarted_worker_aborts_the_session(master: Master) -> None:
    session = master.session(there_and_back())
    run(session, ["y:0"], {"x:0": 1.0})
    master.cluster.restart(1)
    with pytest.raises(errors.AbortedError, match=f"From {task(1)}:\nSession handle is not found"):
        run(session, ["y:0"], {"x:0": 1.0})
    assert run(master.session(there_and_back()), ["y:0"], {"x:0": 1.0}) == [2]


def test_silent_worker_fails_after_timeout(master: Master) -> None:
    session = master.session(there_and_back())
    run(session, ["y:0"], {"x:0": 1.0})
    master.workers[1].silent.add("run_graph")
    options = proto.RunOptions(timeout_in_ms=50)
    with pytest.raises(errors.DeadlineExceededError, match=task(1)):
        run(session, ["y:0"], {"x:0": 1.0}, options=options)
    assert len(master.cluster.workers[0].rendezvous) == 0
    master.workers[1].silent.clear()
    assert run(session, ["y:0"], {"x:0": 1.0}, options=options) == [2]


def test_making_and_closing_a_session_take_bounded_time(
    master: Master, caplog: pytest.LogCaptureFixture
) -> None:
    session = master.session(there_and_back(), timeout=0.05)
    master.workers[1].silent = {"get_status", "delete_worker_session"}
    with pytest.raises(errors.DeadlineExceededError, match=f"{task(1)}.*device_filters"):
        master.session(there_and_back(), timeout=0.05)
    session.close()
    assert f"{task(1)} could not be notified: no answer" in caplog.text
    with pytest.raises(errors.CancelledError):
        run(session, ["y:0"], {"x:0": 1.0})


def test_sessions_begun_on_some_tasks_are_dropped_where_another_fails(master: Master) -> None:
    master.workers[1].silent.add("create_worker_session")
    before = len(master.cluster.workers[0].sessions)
    with pytest.raises(errors.DeadlineExceededError):
        master.session(there_and_back(), timeout=0.05)
    assert len(master.cluster.workers[0].sessions) == before


def test_device_filters_exclude_tasks(master: Master) -> None:
    master.workers[1].is_lost = True
    session = master.session(there_and_back(), device_filters=["/job:worker/task:0"])
    assert [device.name for device in session.list_devices()] == [cpu(0)]
    with pytest.raises(errors.UnavailableError):
        master.session(there_and_back(), device_filters=["/job:worker"])


def test_soft_placement_keeps_job_and_task(master: Master) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        with graph.device(f"{task(1)}/device:GPU:0"):
            ops.state.variable_v2(shape=[], dtype="float32", name="far")
            ops.state.assign(graph.get_tensor_by_name("far:0"), graph.constant(1.0), name="init")
        with graph.device("/job:ps/task:0"):
            ops.math.neg(graph.constant(1.0), name="nowhere")
    pruned = {"place_pruned_graph": True}
    session = master.session(graph, allow_soft_placement=True, graph_options=pruned)
    run(session, targets=["init"])
    (request,) = master.workers[1].requests("register_graph")
    assert "far" in {node.name for node in request.graph_def.node}
    with pytest.raises(errors.InvalidArgumentError, match="Cannot assign a device"):
        run(session, ["nowhere:0"])


def test_watched_step_is_described_and_its_graphs_are_written(
    master: Master, tmp_path: Path
) -> None:
    session = master.session(there_and_back())
    options = graphmill.RunOptions()
    options.debug_options.global_step = 3
    options.debug_options.debug_tensor_watch_opts.add(
        node_name="y", debug_ops=["DebugIdentity"], debug_urls=[f"file://{tmp_path}"]
    )
    run(session, ["y:0"], {"x:0": 1.0}, options=options)
    assert len(list(tmp_path.glob("_tfdbg_device_*/_tfdbg_graph_hash*"))) == 1
    assert len(list(tmp_path.glob("_tfdbg_device_*/y_0_DebugIdentity_*"))) == 1
    (file,) = tmp_path.glob("_tfdbg_core_metadata_sessionrun*")
    assert '"global_step":3' in file.read_bytes().decode("latin-1")


def test_graphs_are_deregistered_when_the_graph_grows(master: Master) -> None:
    graph = there_and_back()
    session = master.session(graph)
    run(session, ["y:0"], {"x:0": 1.0})
    with graph.as_default():
        ops.math.neg(graph.get_tensor_by_name("y:0"), name="z")
    assert run(session, ["z:0"], {"x:0": 1.0}) == [-2]
    assert [len(worker.requests("deregister_graph")) for worker in master.workers] == [1, 1]
    session.close()
    assert [len(worker.requests("deregister_graph")) for worker in master.workers] == [2, 2]


def test_closing_cancels_running_steps(new_master: Callable[..., Master]) -> None:
    master = new_master()
    graph = graphmill.Graph()
    with graph.as_default(), graph.device(task(1)):
        queue = ops.data_flow.fifo_queue_v2(component_types=["float32"], name="q")
        (taken,) = ops.data_flow.queue_dequeue_v2(queue, component_types=["float32"])
        with graph.device(task(0)):
            ops.math.neg(taken, name="y")
    session = master.session(graph)
    outcome: list[Any] = []

    def wait() -> None:
        try:
            outcome.append(run(session, ["y:0"]))
        except errors.OpError as error:
            outcome.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    within(master.workers[1].has_begun.wait, "the begin of the step")
    session.close()
    within(thread.join, "the end of the step")
    assert isinstance(outcome[0], errors.CancelledError)
    assert "closed" in outcome[0].message


def test_callables_are_fed_by_position(master: Master) -> None:
    session = master.session(there_and_back())
    call = session.make_callable((("x:0",), ("y:0",), ()), lambda values: values[0], None)
    assert [call(1.0), call(2.0)] == [2, 4]
    assert len(master.workers[1].requests("register_graph")) == 1
    with pytest.raises(errors.InvalidArgumentError, match="takes 1 values"):
        call()


def test_values_cannot_stay_on_devices(master: Master) -> None:
    session = master.session(there_and_back())
    options = proto.CallableOptions(fetch_devices={"y:0": cpu(0)})
    with pytest.raises(errors.UnimplementedError, match="fetch_devices"):
        session.make_callable((("x:0",), ("y:0",), ()), list, None, options)


def test_partial_runs_are_fed_and_fetched_piece_by_piece(master: Master) -> None:
    graph = there_and_back()
    with graph.as_default():
        z = graph.placeholder(F32, name="z")
        ops.math.add_v2(graph.get_tensor_by_name("y:0"), z, name="sum")
    session = master.session(graph)
    handle = session.partial_run_setup((("x:0", "z:0"), ("y:0", "sum:0"), ()), None)
    with pytest.raises(errors.InvalidArgumentError, match="also needs"):
        session.partial_run(handle, ["sum:0"], {"x:0": 1.0}, None)
    assert session.partial_run(handle, ["y:0"], {"x:0": 1.0}, None) == [2]
    with pytest.raises(errors.InvalidArgumentError, match="already been fed"):
        session.partial_run(handle, ["sum:0"], {"x:0": 1.0}, None)
    assert session.partial_run(handle, ["sum:0"], {"z:0": 5.0}, None) == [7]
    with pytest.raises(errors.InvalidArgumentError, match="no unfinished partial run"):
        session.partial_run(handle, ["sum:0"], {}, None)
    assert all(len(worker.rendezvous) == 0 for worker in master.cluster.workers)


def test_one_step_or_partial_run_is_cancelled_alone(master: Master) -> None:
    session = master.session(there_and_back())
    master.workers[1].silent.add("run_graph")
    reason = errors.CancelledError("the client is gone")
    cancellation = CancellationManager(session.cancellation)
    signature = ("x:0",), ("y:0",), ()

    def cancel() -> None:
        master.workers[1].has_begun.wait()
        cancellation.start_cancel(reason)

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(errors.CancelledError, match="the client is gone"):
        session.run(signature, [1.0], None, None, cancellation)
    thread.join()
    master.workers[1].silent.clear()
    handle = session.partial_run_setup(signature, None)
    session.cancel_partial_run(handle, reason)
    with pytest.raises(errors.InvalidArgumentError, match="no unfinished partial run"):
        session.partial_run(handle, ["y:0"], {"x:0": 1.0}, None)
    assert run(session, ["y:0"], {"x:0": 1.0}) == [2]


def test_step_stats_and_partition_graphs_of_all_tasks_are_gathered(master: Master) -> None:
    session = master.session(there_and_back())
    options = proto.RunOptions(
        trace_level=proto.RunOptions.FULL_TRACE, output_partition_graphs=True
    )
    metadata = proto.RunMetadata()
    assert run(session, ["y:0"], {"x:0": 1.0}, options=options, metadata=metadata) == [2]
    assert {stats.device for stats in metadata.step_stats.dev_stats} == {cpu(0), cpu(1)}
    assert len(metadata.partition_graphs) == 2


@pytest.mark.parametrize("may_alias", [False, True])
def test_local_fetches_are_copied_unless_borrowed(master: Master, may_alias: bool) -> None:
    graph = graphmill.Graph()
    with graph.as_default(), graph.device(task(0)):
        graph.constant(np.arange(1000, dtype=np.float32), name="c")
    worker = master.cluster.workers[0]
    session = ClusterSession(
        master.cluster.host,
        proto.ConfigProto(),
        {task(0): LocalWorker(worker, outputs_may_alias=may_alias)},
        task(0),
        worker.devices,
    )
    session.follow(graph)
    (first,), (second,) = run(session, ["c:0"]), run(session, ["c:0"])
    session.close()
    assert first[999] == 999
    assert np.shares_memory(first, second) is may_alias
