"""Invalid control flow is a typed error at a node, and the session survives (E3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphmill import errors, proto
from graphmill.session.session import Session
from graphmill.testing.proto_builders import const_def, graph_def, node_def
from graphmill.testing.timeouts import no_leaked_threads

EXECUTORS = ("DEFAULT", "INLINE")
X = node_def("x", "Placeholder", dtype="float32")
OK = node_def("ok", "Neg", "x", T="float32")


def enter(name: str, source: str, frame: str, parallel: int = 10, **attrs: Any) -> Any:
    attrs.setdefault("T", "float32")
    frame_name = frame.encode()
    return node_def(
        name, "Enter", source, frame_name=frame_name, parallel_iterations=parallel, **attrs
    )


def merge(name: str, *inputs: str) -> Any:
    return node_def(name, "Merge", *inputs, T="float32", N=len(inputs))


def session_of(*nodes: Any, executor_type: str = "") -> Session:
    config = proto.ConfigProto()
    config.experimental.executor_type = executor_type
    config.graph_options.optimizer_options.global_jit_level = -1  # that has threads of its own
    return Session(graph=graph_def(X, OK, *nodes), config=config)


def leave(name: str, source: str) -> Any:
    return node_def(name, "Exit", source, T="float32")


A, B = enter("in_a", "x", "a"), enter("in_b", "x", "b")
BAD = {
    "inputs from two loops": (
        [A, B, node_def("bad", "AddV2", "in_a", "in_b", T="float32"), leave("y", "bad")],
        "bad",
        "has inputs from different frames. The input 'in_a' is in frame 'a'",
    ),
    "a merge over two loops": (
        [A, B, merge("bad", "in_a", "in_b"), leave("y", "bad")],
        "bad",
        "The input 'in_b' is in frame 'b'",
    ),
    "a merge of a loop and what is outside": (
        [A, merge("bad", "in_a", "x"), leave("y", "bad")],
        "bad",
        "is in frame '<root>'",
    ),
    "a back edge from another loop": (
        [
            A,
            B,
            node_def("next", "NextIteration", "in_b", T="float32"),
            merge("bad", "in_a", "next"),
            leave("y", "bad"),
        ],
        "bad",
        "has a back edge from 'next' in frame 'b', but is itself in frame 'a'",
    ),
    "an exit outside of all loops": ([leave("bad", "x")], "bad", "is an Exit outside of any frame"),
    "a next iteration outside of all loops": (
        [node_def("bad", "NextIteration", "x", T="float32"), merge("y", "x", "bad")],
        "bad",
        "is a NextIteration outside of any frame",
    ),
    "enters that disagree": (
        [
            A,
            enter("bad", "x", "a", parallel=3),
            node_def("add", "AddV2", "in_a", "bad", T="float32"),
            leave("y", "add"),
        ],
        "bad",
        "with parallel_iterations=3, another Enter has 10",
    ),
    "an enter of a frame without a name": (
        [enter("bad", "x", ""), leave("y", "bad")],
        "bad",
        "has an empty frame_name",
    ),
    "an enter that lets no iteration run": (
        [enter("bad", "x", "a", parallel=0), leave("y", "bad")],
        "bad",
        "has parallel_iterations=0; at least 1",
    ),
    "a control edge into a loop": (
        [A, node_def("bad", "Neg", "in_a", "^x", T="float32"), leave("y", "bad")],
        "bad",
        "in frame '<root>'",
    ),
}


@pytest.mark.parametrize("executor_type", EXECUTORS)
@pytest.mark.parametrize("name", BAD)
def test_e3_badly_nested_control_flow_is_reported(name: str, executor_type: str) -> None:
    nodes, culprit, words = BAD[name]
    fetch = nodes[-1].name + ":0"
    with session_of(*nodes, executor_type=executor_type) as session:
        with pytest.raises(errors.InvalidArgumentError) as caught:
            session.run(fetch, {"x:0": 1})
        assert words in str(caught.value)
        assert caught.value.node == culprit
        assert caught.value.op_type is not None
        assert session.run("ok:0", {"x:0": 1}) == -1


def endless(leaves: bool) -> list[Any]:
    """Return an infinite loop, without an exit or with one that is never live."""
    frame = {"is_constant": True}
    nodes = [
        const_def("yes", np.bool_(True)),
        enter("start", "x", "w"),
        enter("go_on", "yes", "w", T="bool", **frame),
        merge("merge", "start", "next"),
        node_def("cond", "LoopCond", "go_on"),
        node_def("switch", "Switch", "merge", "cond", T="float32"),
        node_def("body", "Neg", "switch:1", T="float32"),
        node_def("next", "NextIteration", "body", T="float32"),
    ]
    return [*nodes, leave("y", "switch")] if leaves else nodes


@pytest.mark.parametrize("executor_type", EXECUTORS)
@pytest.mark.parametrize("leaves", [True, False], ids=["exit never taken", "no exit"])
def test_s6_a_loop_without_end_ends_by_its_timeout(leaves: bool, executor_type: str) -> None:
    with (
        no_leaked_threads(),
        session_of(*endless(leaves), executor_type=executor_type) as session,
    ):
        expected: dict[str, Any] = {"fetches": "y:0"} if leaves else {"fetches": "next"}
        with pytest.raises(errors.DeadlineExceededError, match="timeout of 100 ms"):
            session.run(feed_dict={"x:0": 1}, options={"timeout_in_ms": 100}, **expected)
        assert session.run("ok:0", {"x:0": 1}) == -1


@pytest.mark.parametrize("executor_type", EXECUTORS)
def test_r1_duplicate_send_is_reported(executor_type: str) -> None:
    """Two sends with one key, as in a graph that another program partitioned."""
    device = "/job:localhost/replica:0/task:0/device:CPU:0"
    attrs = {"tensor_name": b"t", "send_device": device.encode(), "recv_device": device.encode()}
    sends = [
        node_def(name, "_Send", "x", T="float32", send_device_incarnation=1, **attrs)
        for name in ("first", "second")
    ]
    remote = node_def("z", "Neg", "x", T="float32", device="/device:CPU:1")
    config = proto.ConfigProto(device_count={"CPU": 2})
    config.experimental.executor_type = executor_type
    with Session(graph=graph_def(X, OK, *sends, remote), config=config) as session:
        with pytest.raises(errors.AbortedError, match="Duplicated send") as caught:
            session.run(["z:0", "first", "second"], {"x:0": 1})
        assert caught.value.op_type == "_Send"
        assert caught.value.node in ("first", "second")
        assert session.run(["z:0", "ok:0"], {"x:0": 1}) == [-1, -1]
