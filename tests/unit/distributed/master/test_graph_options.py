"""`GraphOptions` change wire types and the start of receives."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.unit.distributed.master.conftest import Master, run
from tests.unit.distributed.worker.conftest import task

import graphmill
from graphmill import ops
from graphmill.dtypes import bfloat16

F32 = graphmill.float32
BFLOAT16 = {"graph_options": {"enable_bfloat16_sendrecv": True}}
SCHEDULED = {"graph_options": {"enable_recv_scheduling": True}}
X = np.array([1.0, 1.003, -3.1415927, 1e30], np.float32)


def shortened(x: Any) -> Any:
    """Return floats without the last 16 bits of their mantissas."""
    return (x.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def registered(master: Master, number: int) -> Any:
    """Return the nodes of the last registered graph of a task, by name."""
    graph_def = master.workers[number].requests("register_graph")[-1].graph_def
    return {node.name: node for node in graph_def.node}


def there_and_back() -> Any:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder(F32, [4], name="x")
        n = graph.placeholder("int32", [], name="n")
        with graph.device(task(1)):
            ops.math.neg(x, name="fed")
        y = ops.math.add_v2(x, x, name="y")
        with graph.device(task(1)):
            z = ops.math.neg(y, name="z")
            count = ops.math.add_v2(ops.math.neg(ops.math.neg(n)), np.int32(1), name="count")
        ops.math.mul(z, np.float32(0.5), name="w")
        with graph.device(task(0)):
            ops.math.add_v2(count, np.int32(1), name="next")
    return graph


def test_floats_cross_tasks_as_bfloat16(master: Master) -> None:
    session = master.session(there_and_back(), **BFLOAT16)
    (w,) = run(session, ["w:0"], {"x:0": X})
    np.testing.assert_array_equal(w, -shortened(X))
    assert not np.array_equal(w, -X)
    for number in (0, 1):
        nodes = registered(master, number).values()
        transfers = [node for node in nodes if node.op in ("_Send", "_Recv")]
        own = [node for node in transfers if not node.attr["client_terminated"].b]
        types = {node.attr["T"].type or node.attr["tensor_type"].type for node in own}
        assert types == {bfloat16.enum}
        casts = [(n.attr["DstT"].type, n.attr["Truncate"].b) for n in nodes if n.op == "Cast"]
        assert sorted(casts) == [(F32.enum, False), (bfloat16.enum, True)]


def test_fed_and_other_dtypes_are_not_compressed(master: Master) -> None:
    session = master.session(there_and_back(), **BFLOAT16)
    assert run(session, ["next:0"], {"n:0": np.int32(70_001)}) == [70_003]
    (fed,) = run(session, ["fed:0"], {"x:0": X})
    np.testing.assert_array_equal(fed, -X)
    assert "Cast" not in {node.op for node in registered(master, 1).values()}


def test_edges_between_devices_of_one_task_keep_their_type(new_master: Any) -> None:
    master = new_master(1, 2)
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder(F32, [4], name="x")
        with graph.device(task(0) + "/device:CPU:1"):
            y = ops.math.neg(x, name="y")
        with graph.device(task(0) + "/device:CPU:0"):
            ops.math.neg(y, name="z")
    (z,) = run(master.session(graph, **BFLOAT16), ["z:0"], {"x:0": X})
    np.testing.assert_array_equal(z, X)


def late_use(length: int) -> Any:
    """Return a chain on task 0 whose last node needs a tensor of task 1."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder(F32, [], name="x")
        with graph.device(task(1)):
            far = ops.math.neg(x, name="far")
        with graph.device(task(0)):
            y = ops.math.add_v2(x, np.float32(1), name="n0")
            for number in range(1, length):
                y = ops.math.add_v2(y, np.float32(1), name=f"n{number}")
            ops.math.add_v2(y, far, name="y")
    return graph


def receive_and_trigger(master: Master) -> tuple[Any, Any]:
    nodes = registered(master, 0)
    (receive,) = [node for name, node in nodes.items() if name.startswith("far/_recv")]
    if not receive.input:
        return receive, None
    (trigger,) = receive.input
    return receive, nodes[trigger.removeprefix("^")]


def test_receives_wait_until_shortly_before_they_are_needed(master: Master) -> None:
    session = master.session(late_use(30), **SCHEDULED)
    assert run(session, ["y:0"], {"x:0": np.float32(2)}) == [30]
    _, trigger = receive_and_trigger(master)
    assert trigger.op == "ControlTrigger"
    (after,) = trigger.input
    assert after.startswith("^n2")  # of n0 to n29, each of which takes one unit of time


def test_receives_begin_at_once_where_nothing_is_requested(master: Master) -> None:
    session = master.session(late_use(30))
    assert run(session, ["y:0"], {"x:0": np.float32(2)}) == [30]
    assert receive_and_trigger(master)[1] is None


def test_receives_that_wait_for_each_other_s_tasks_end(master: Master) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        value = graph.placeholder(F32, [], name="x")
        for number in range(40):
            with graph.device(task(number % 2)):
                value = ops.math.add_v2(value, np.float32(1), name=f"n{number}")
    session = master.session(graph, **SCHEDULED)
    assert run(session, ["n39:0"], {"x:0": np.float32(0)}) == [40]
    assert any(node.op == "ControlTrigger" for node in registered(master, 0).values())


def test_loops_are_not_scheduled(master: Master) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        n = graph.placeholder("int32", [], name="n")

        def body(i: Any, a: Any) -> Any:
            with graph.device(task(1)):
                for _ in range(10):
                    a = a * 2.0
            return i + 1, a

        _, end = graphmill.while_loop(lambda i, a: i < n, body, [0, 1.0])
        ops.array.identity(end, name="end")
    session = master.session(graph, **SCHEDULED)
    assert run(session, ["end:0"], {"n:0": np.int32(3)}) == [2.0**30]
