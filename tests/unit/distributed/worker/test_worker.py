"""Workers run partitions: across tasks, dead or live, in loops, with failures."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from google.protobuf import text_format
from tests.unit.distributed.worker.conftest import Cluster, Outcome, cpu, task

import graphmill
from graphmill import errors, ops, proto
from graphmill.distributed.worker.registered_graph import RegisteredGraph
from graphmill.distributed.worker.remote_rendezvous import RemoteRendezvous
from graphmill.distributed.worker.step_call import StepCall
from graphmill.errors import AbortedError, InternalError
from graphmill.ops.attrs.attr_types import FuncAttr
from graphmill.runtime.executor import ExecutorArgs
from graphmill.runtime.rendezvous import RendezvousKey
from graphmill.runtime.steps.cancellation import CancellationManager

if TYPE_CHECKING:
    from collections.abc import Callable

F32 = graphmill.float32


def there_and_back(cluster: Cluster, far: str = cpu(1)) -> dict[int, str]:
    """Register `y = -(-x * 2)`, doubled on another task."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = cluster.feed(graph, "x:0", F32)
        with graph.device(far):
            doubled = ops.math.mul(ops.math.neg(x), graph.constant(2.0))
        cluster.fetch(graph, ops.math.neg(doubled), "y:0")
    return cluster.register(graph)


def counting_loop(cluster: Cluster, cond_on: str, body_on: str) -> dict[int, str]:
    """Register `while i < n: i = i + 1`."""
    graph = graphmill.Graph()
    with graph.as_default(), graph.device(cond_on):
        n = cluster.feed(graph, "n:0", F32)
        enter = ops.control_flow.enter(graph.constant(0.0), frame_name="w")
        limit = ops.control_flow.enter(n, frame_name="w", is_constant=True)
        merge = ops.control_flow.merge([enter, enter]).output
        cond = ops.control_flow.loop_cond(ops.math.less(merge, limit))
        switch = ops.control_flow.switch(merge, cond)
        with graph.device(body_on):
            one = ops.control_flow.enter(graph.constant(1.0), frame_name="w", is_constant=True)
            added = ops.math.add_v2(switch.output_true, one)
        following = ops.control_flow.next_iteration(added)
        graph.replace_input(merge.op, 1, following.op, 0)
        cluster.fetch(graph, ops.control_flow.exit(switch.output_false), "y:0")
    return cluster.register(graph)


def test_a_graph_runs_on_two_tasks_step_by_step(cluster: Cluster) -> None:
    handles = there_and_back(cluster)
    assert all(len(handle) == 16 and int(handle, 16) for handle in handles.values())
    for x in (1.0, 2.5, -3.0):
        assert cluster.run(handles, {"x:0": np.float32(x)}, ["y:0"]) == [2 * x]
    assert len(cluster.workers[0].rendezvous) == len(cluster.workers[1].rendezvous) == 0


def test_many_steps_of_one_graph_run_at_once(cluster: Cluster) -> None:
    handles = there_and_back(cluster)
    only_near = {0: handles[0]}
    begun = [
        cluster.start(only_near, {"x:0": np.float32(n)}, ["y:0"], step_id=100 + n)[0]
        for n in range(20)
    ]
    assert not any(outcome.is_there for outcome in begun)
    for n in reversed(range(20)):
        cluster.start({1: handles[1]}, step_id=100 + n)[1].get()
        assert begun[n].get().outputs[cluster.key("y:0")] == 2 * n


def test_dead_tensors_cross_tasks(cluster: Cluster) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        p = cluster.feed(graph, "p:0", graphmill.bool)
        switch = ops.control_flow.switch(graph.constant(3.0), p)
        with graph.device(cpu(1)):
            yes = ops.math.square(switch.output_true)
        merged = ops.control_flow.merge([ops.math.neg(switch.output_false), yes])
        cluster.fetch(graph, merged.output, "y:0")
        cluster.fetch(graph, yes, "yes:0")
    handles = cluster.register(graph)
    assert cluster.run(handles, {"p:0": np.bool_(True)}, ["y:0", "yes:0"]) == [9, 9]
    assert cluster.run(handles, {"p:0": np.bool_(False)}, ["y:0"]) == [-3]
    with pytest.raises(errors.InvalidArgumentError, match="is dead"):
        cluster.run(handles, {"p:0": np.bool_(False)}, ["yes:0"])


@pytest.mark.parametrize("devices", [(cpu(0), cpu(1)), (cpu(1), cpu(0))])
def test_loops_run_on_two_tasks(cluster: Cluster, devices: tuple[str, str]) -> None:
    handles = counting_loop(cluster, *devices)
    assert set(handles) == {0, 1}
    for n in (0, 1, 7, 30):
        assert cluster.run(handles, {"n:0": np.float32(n)}, ["y:0"]) == [n]


def test_loops_run_on_several_devices_of_a_task(new_cluster: Callable[..., Cluster]) -> None:
    cluster = new_cluster(2, 2)
    handles = counting_loop(cluster, cpu(0, 1), cpu(0, 0))
    assert set(handles) == {0}
    assert cluster.run(handles, {"n:0": np.float32(5)}, ["y:0"]) == [5]
    handles = counting_loop(cluster, cpu(1, 1), cpu(1, 0))
    assert cluster.run(handles, {"n:0": np.float32(5)}, ["y:0"]) == [5]


def test_graphs_of_a_session_share_variables(cluster: Cluster) -> None:
    def graph_with(update: bool) -> dict[int, str]:
        graph = graphmill.Graph()
        with graph.as_default(), graph.device(cpu(1)):
            v = ops.state.variable_v2(shape=[], dtype="float32", name="v")
            if update:
                ops.state.assign(v, graph.constant(5.0))
            else:
                read = ops.math.neg(v)
                with graph.device(cpu(0)):
                    cluster.fetch(graph, ops.array.identity(read), "y:0")
        return cluster.register(graph)

    cluster.run(graph_with(True))
    read = graph_with(False)
    assert cluster.run(read, fetches=["y:0"]) == [-5]
    cluster.restart(1)
    with pytest.raises(errors.AbortedError, match="Graph handle is not found"):
        cluster.run({1: read[1]})


def test_the_first_error_reaches_all_tasks(cluster: Cluster) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = cluster.feed(graph, "x:0", F32)
        with graph.device(cpu(1)):
            bad = ops.array.check_numerics(x, message="no number", name="bad")
        cluster.fetch(graph, ops.math.neg(bad), "y:0")
    handles = cluster.register(graph)
    outcomes = cluster.start(handles, {"x:0": np.float32("nan")}, ["y:0"])
    with pytest.raises(errors.InvalidArgumentError, match="no number") as far:
        outcomes[1].get()
    assert (far.value.node, far.value.is_derived) == ("bad", False)
    with pytest.raises(errors.InvalidArgumentError, match="no number"):
        outcomes[0].get()


def test_cleanup_ends_a_step_that_waits(cluster: Cluster) -> None:
    handles = there_and_back(cluster)
    outcome = cluster.start({0: handles[0]}, {"x:0": np.float32(1)}, ["y:0"], step_id=9)[0]
    cluster.workers[1].cleanup_graph(9)
    with pytest.raises(errors.AbortedError):
        outcome.get()
    late = cluster.start({1: handles[1]}, step_id=9)[1]
    with pytest.raises(errors.AbortedError, match="step 9 has ended"):
        late.get()


def test_failed_step_with_graph_key_may_begin_again_under_its_number(cluster: Cluster) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = cluster.feed(graph, "x:0", F32)
        cluster.fetch(graph, ops.array.check_numerics(x, message="no number"), "y:0")
    (part,) = cluster.split(graph).values()
    worker = cluster.workers[0]
    handle = worker.register_graph("s", part, was_created=True, collective_graph_key=7)
    with pytest.raises(errors.InvalidArgumentError, match="no number"):
        cluster.start({0: handle}, {"x:0": np.float32("nan")}, ["y:0"], step_id=9)[0].get()
    worker.cleanup_graph(9)
    again = cluster.start({0: handle}, {"x:0": np.float32(1)}, ["y:0"], step_id=9)[0].get()
    assert list(again.outputs.values()) == [1]


def test_a_withdrawn_call_cancels_its_step(cluster: Cluster) -> None:
    handles = there_and_back(cluster)
    outcome = Outcome()
    call = StepCall(handles[1], 9)
    withdraw = cluster.workers[1].run_graph("s", call, outcome, was_created=True)
    assert not outcome.is_there
    withdraw()
    again = Outcome()
    cluster.workers[1].run_graph("s", StepCall(handles[1], 10), again, was_created=True)
    cluster.workers[1].sessions.delete("s")
    with pytest.raises(errors.CancelledError):
        again.get()


def test_a_repeated_request_is_run_once(cluster: Cluster) -> None:
    graph = graphmill.Graph()
    with graph.as_default(), graph.device(cpu(1)):
        v = ops.state.variable_v2(shape=[], dtype="float32", name="v")
        init = ops.state.assign(v, graph.constant(0.0))
    cluster.run(cluster.register(graph))
    del init
    graph = graphmill.Graph()
    with graph.as_default():
        x = cluster.feed(graph, "x:0", F32)
        with graph.device(cpu(1)):
            v = ops.state.variable_v2(shape=[], dtype="float32", name="v")
            added = ops.array.identity(ops.state.assign_add(v, x))
        cluster.fetch(graph, ops.array.identity(added), "y:0")
    handles = cluster.register(graph)
    worker = cluster.workers[1]
    first, second, third = Outcome(), Outcome(), Outcome()
    call = StepCall(handles[1], 50, request_id=77)
    leave = worker.run_graph("s", call, first, was_created=True)
    worker.run_graph("s", call, second, was_created=True)
    leave()  # the other caller still waits
    near = cluster.start({0: handles[0]}, {"x:0": np.float32(4)}, ["y:0"], step_id=50)[0]
    second.get()
    worker.run_graph("s", call, third, was_created=True)
    third.get()
    assert near.get().outputs[cluster.key("y:0")] == 4
    assert cluster.run(handles, {"x:0": np.float32(1)}, ["y:0"]) == [5]


def test_unknown_handles_are_aborted(cluster: Cluster) -> None:
    worker = cluster.workers[0]
    for session, created, match in [
        ("other", True, f"Session handle is not found: other. Possibly this worker .*{task(0)}"),
        ("s", True, "Graph handle is not found: 0123. Possibly, this worker just restarted"),
        ("s", False, "Graph handle is not found: 0123"),
    ]:
        outcome = Outcome()
        worker.run_graph(session, StepCall("0123", 1), outcome, was_created=created)
        with pytest.raises(errors.AbortedError, match=match):
            outcome.get()
    with pytest.raises(errors.AbortedError):
        worker.deregister_graph("s", "0123", was_created=True)
    with pytest.raises(errors.AbortedError):
        worker.register_graph("other", proto.GraphDef(), was_created=True)


def test_a_deregistered_graph_is_closed_after_its_last_step(cluster: Cluster) -> None:
    handles = there_and_back(cluster)
    running = cluster.start({0: handles[0]}, {"x:0": np.float32(1)}, ["y:0"], step_id=9)[0]
    cluster.workers[0].deregister_graph("s", handles[0], was_created=True)
    cluster.start({1: handles[1]}, step_id=9)[1].get()
    assert running.get().outputs[cluster.key("y:0")] == 2
    with pytest.raises(errors.AbortedError):
        cluster.run({0: handles[0]})


def test_tensors_of_earlier_incarnation_are_not_served(cluster: Cluster) -> None:
    handles = there_and_back(cluster)
    cluster.restart(1)
    outcome = cluster.start({0: handles[0]}, {"x:0": np.float32(1)}, ["y:0"])[0]
    with pytest.raises(errors.AbortedError, match="different device incarnation") as caught:
        outcome.get()
    assert caught.value.op_type == "_Recv"


def test_ops_that_are_not_here_are_refused_at_registration(cluster: Cluster) -> None:
    graph_def = proto.GraphDef()
    graph_def.node.add(name="a", op="NobodysOp", device=cpu(0))
    with pytest.raises(errors.UnimplementedError, match="NobodysOp"):
        cluster.workers[0].register_graph("s", graph_def, was_created=True)


@pytest.mark.parametrize("device", ["", "/device:CPU:0", cpu(1), cpu(0, 7)])
def test_nodes_must_be_on_a_device_of_the_worker(cluster: Cluster, device: str) -> None:
    graph_def = proto.GraphDef()
    graph_def.node.add(name="a", op="NoOp", device=device)
    with pytest.raises(errors.InvalidArgumentError, match="expected the full name"):
        cluster.workers[0].register_graph("s", graph_def, was_created=True)


def test_isolated_sessions_have_resources_of_their_own(cluster: Cluster) -> None:
    worker = cluster.workers[0]
    worker.sessions.create("alone", isolate_session_state=True)
    alone = worker.sessions.find("alone", was_created=True)
    assert [d.attributes.incarnation for d in alone.devices] == [
        d.attributes.incarnation for d in worker.devices
    ]
    assert alone.devices.host.resource_mgr is not worker.devices.host.resource_mgr


def test_a_restarted_master_loses_its_earlier_sessions(cluster: Cluster) -> None:
    sessions = cluster.workers[0].sessions
    sessions.create("old", master_task=task(1), master_incarnation=1)
    sessions.create("other", master_task=task(0), master_incarnation=1)
    sessions.create("new", master_task=task(1), master_incarnation=2)
    with pytest.raises(errors.AbortedError):
        sessions.find("old", was_created=True)
    assert sessions.find("other", was_created=True).handle == "other"


def test_step_stats_costs_and_graphs_are_returned_when_requested(cluster: Cluster) -> None:
    handles = there_and_back(cluster)
    options = {"record_timeline": True, "record_costs": True, "record_partition_graphs": True}
    outcomes = cluster.start(handles, {"x:0": np.float32(1)}, ["y:0"], **options)
    for number, outcome in outcomes.items():
        result = outcome.get()
        (device,) = result.step_stats.dev_stats
        assert device.device == cpu(number)
        assert {node.name for node in result.cost_graph.node} >= {
            node.node_name for node in device.node_stats if node.node_name != "_SOURCE"
        }
        assert {node.device for node in result.partition_graphs[0].node} == {cpu(number)}


def test_partial_runs_are_fed_and_fetched_piece_by_piece(cluster: Cluster) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        a, b = cluster.feed(graph, "a:0", F32), cluster.feed(graph, "b:0", F32)
        with graph.device(cpu(1)):
            one = ops.math.neg(a)
        cluster.fetch(graph, one, "one:0")
        cluster.fetch(graph, ops.math.mul(one, b), "two:0")
    handles = cluster.register(graph)
    first = cluster.start(handles, {"a:0": np.float32(2)}, ["one:0"], 9, is_partial=True)
    assert first[0].get().outputs == {cluster.key("one:0"): -2}
    last = cluster.start(
        handles, {"b:0": np.float32(3)}, ["two:0"], 9, is_partial=True, is_last_partial_run=True
    )
    assert last[0].get().outputs == {cluster.key("two:0"): -6}
    assert last[1].get().outputs == {}


def faulty_partial_graph(cluster: Cluster) -> dict[int, str]:
    graph = graphmill.Graph()
    with graph.as_default():
        a = cluster.feed(graph, "a:0", F32)
        cluster.fetch(graph, ops.math.neg(a), "y:0")
    return cluster.register(graph)


@pytest.mark.parametrize("error", [ValueError("a bug"), AbortedError("refused")], ids=repr)
def test_exception_of_a_partial_step_reaches_calls_that_wait(
    error: Exception, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(RegisteredGraph, "items_of_next_step", fail)
    handles = faulty_partial_graph(cluster)
    for feeds in ({}, {"a:0": np.float32(2)}):
        (outcome,) = cluster.start(handles, feeds, ["y:0"], 9, is_partial=True).values()
        with pytest.raises((InternalError, AbortedError), match=r"a bug|refused"):
            outcome.get()


def test_exception_before_a_partial_step_reaches_its_caller(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise ValueError("a bug")

    handles = faulty_partial_graph(cluster)
    monkeypatch.setattr("graphmill.distributed.worker.worker.WorkerStep", fail)
    for _ in range(2):  # a repeated request gets the same outcome
        (outcome,) = cluster.start(
            handles, {"a:0": np.float32(2)}, ["y:0"], 9, is_partial=True, request_id=7
        ).values()
        with pytest.raises(InternalError, match="was not started: ValueError: a bug"):
            outcome.get()


def test_registered_graphs_become_hot(cluster: Cluster) -> None:
    handles = there_and_back(cluster)
    for n in range(6):
        assert cluster.run(handles, {"x:0": np.float32(n)}, ["y:0"]) == [2 * n]
    for number, worker in enumerate(cluster.workers):
        graph = worker.sessions.find("s", was_created=True).graphs.acquire(handles[number])
        graph.build_hot()
        assert graph.executors.hot_items is not None
        graph.release()
    for n in range(6):
        assert cluster.run(handles, {"x:0": np.float32(n)}, ["y:0"]) == [2 * n]


@pytest.mark.parametrize(("seconds", "is_hot"), [(1e-9, True), (1e9, False)])
def test_registered_graph_becomes_hot_after_the_seconds_of_its_steps(
    seconds: float, is_hot: bool, cluster: Cluster
) -> None:
    handles = there_and_back(cluster)
    worker = cluster.workers[0]
    graph = worker.sessions.find("s", was_created=True).graphs.acquire(handles[0])
    graph._hot_steps.after_seconds = seconds
    for n in range(4):  # the third is the first whose duration counts
        assert cluster.run(handles, {"x:0": np.float32(n)}, ["y:0"]) == [2 * n]
    graph.host.background.wait_idle()
    assert (graph.executors.hot_items is not None) == is_hot
    graph.release()


LIBRARY = """
function {{
  signature {{ name: "F" input_arg {{ name: "a" type: DT_FLOAT }}
               output_arg {{ name: "b" type: DT_FLOAT }} }}
  node_def {{ name: "d" op: "AddV2" input: "a" input: "a" device: "{0}"
              attr {{ key: "T" value {{ type: DT_FLOAT }} }} }}
  node_def {{ name: "e" op: "AddV2" input: "d:z:0" input: "a" device: "{1}"
              attr {{ key: "T" value {{ type: DT_FLOAT }} }} }}
  ret {{ key: "b" value: "e:z:0" }} }}"""


def test_functions_are_called_from_the_registered_library(
    new_cluster: Callable[..., Cluster],
) -> None:
    cluster = new_cluster(2, 2)
    for bodies in [("", ""), (cpu(1, 1), cpu(1))]:
        graph = graphmill.Graph()
        library = text_format.Parse(LIBRARY.format(*bodies), proto.FunctionDefLibrary())
        graph.library.add_library(library)
        with graph.as_default():
            x = cluster.feed(graph, "x:0", F32)
            with graph.device(cpu(1)):
                attrs = {"Tin": [F32], "Tout": [F32], "f": FuncAttr("F", {})}
                call = graph.create_op("PartitionedCall", [x], attrs)
            cluster.fetch(graph, graph.get_tensor_by_name(f"{call.name}:0"), "y:0")
        handles = cluster.register(graph)
        assert cluster.run(handles, {"x:0": np.float32(4)}, ["y:0"]) == [12]


def test_forbidden_effects_of_server_apply_to_all_graphs(
    new_cluster: Callable[..., Cluster],
) -> None:
    cluster = new_cluster(graphmill={"forbid_effects": ["fs.read"]})
    graph = graphmill.Graph()
    with graph.as_default():
        ops.io.read_file(graph.constant(b"/dev/null"))
    for config in (None, proto.ConfigProto(), proto.ConfigProto(graphmill={"jit": "off"})):
        for part in cluster.split(graph).values():
            with pytest.raises(errors.PermissionDeniedError):
                cluster.workers[0].register_graph("s", part, was_created=True, config=config)


def test_unsent_key_is_reported(cluster: Cluster) -> None:
    handles = there_and_back(cluster)
    outcomes = cluster.start(handles, {"x:0": np.float32(1)}, ["z:0"])
    with pytest.raises(errors.InvalidArgumentError, match="without sending a value"):
        outcomes[0].get()


def test_recv_tensor_may_precede_the_step(cluster: Cluster) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        y = ops.math.neg(graph.constant(2.0))
        with graph.device(cpu(1)):
            ops.math.neg(y)
    parts = cluster.split(graph)
    (send,) = [node for node in parts[0].node if node.op == "_Send"]
    device = cluster.workers[0].devices.host
    key = RendezvousKey(
        device.name,
        device.attributes.incarnation,
        cpu(1),
        send.attr["tensor_name"].s.decode(),
    )
    got = Outcome()
    cluster.workers[0].recv_tensor(9, str(key), got)
    handle = cluster.workers[0].register_graph("s", parts[0], was_created=True)
    cluster.start({0: handle}, step_id=9)[0].get()
    assert got.get() == -2


def test_steps_free_everything(cluster: Cluster) -> None:
    handles = there_and_back(cluster)

    def left() -> int:
        for step in range(50):
            assert cluster.run(handles, {"x:0": np.float32(step)}, ["y:0"]) == [2 * step]
        with pytest.raises(errors.AbortedError):
            cluster.start({1: handles[1]}, step_id=1)[1].get()  # has ended
        gc.collect()
        kinds = (ExecutorArgs, CancellationManager, RemoteRendezvous)
        return sum(issubclass(type(found), kinds) for found in gc.get_objects())

    before = left()
    # The last steps' threads may not have let go of them; what leaks does so in each step.
    assert left() - before < 25
