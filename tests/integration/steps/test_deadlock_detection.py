"""A deadlocked step fails with an explanation, and the session survives (E8, R1, S8, E10)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphmill import errors, proto
from graphmill.session.session import Session
from graphmill.testing.proto_builders import const_def, function_def, graph_def, node_def
from graphmill.testing.timeouts import no_leaked_threads

HERE, THERE = "/device:CPU:0", "/device:CPU:1"
EXECUTORS = ("DEFAULT", "INLINE")
FRAME = {"frame_name": b"loop", "parallel_iterations": 10}


def half_dead_loop(x: str, p: str, device: str = HERE) -> list[Any]:
    """A loop with two variables, one of which is dead if `p` is false, so `out` never exits.

    No builder makes such a loop.
    """

    def here(name: str, op: str, *inputs: str, **attrs: Any) -> Any:
        return node_def(name, op, *inputs, device=device, **attrs)

    return [
        const_def("three", np.float32(3)),
        const_def("one", np.float32(1)),
        here("gate", "Switch", x, p, T="float32"),
        here("enter", "Enter", "gate:1", T="float32", **FRAME),
        here("enter_i", "Enter", "one", T="float32", **FRAME),
        here("limit", "Enter", "three", T="float32", is_constant=True, **FRAME),
        here("step", "Enter", "one", T="float32", is_constant=True, **FRAME),
        here("merge_i", "Merge", "enter_i", "next_i", T="float32", N=2),
        here("less", "Less", "merge_i", "limit", T="float32"),
        here("cond", "LoopCond", "less"),
        here("switch_i", "Switch", "merge_i", "cond", T="float32"),
        here("add_i", "AddV2", "switch_i:1", "step", T="float32"),
        here("next_i", "NextIteration", "add_i", T="float32"),
        here("merge", "Merge", "enter", "next", T="float32", N=2),
        here("switch", "Switch", "merge", "cond", T="float32"),
        here("neg", "Neg", "switch:1", T="float32"),
        here("next", "NextIteration", "neg", T="float32"),
        here("out", "Exit", "switch", T="float32"),
    ]


def two_devices() -> Any:
    return graph_def(
        node_def("x", "Placeholder", dtype="float32", device=HERE),
        node_def("p", "Placeholder", dtype="bool", device=HERE),
        *half_dead_loop("x", "p"),
        node_def("y", "Neg", "out", device=THERE, T="float32"),
        node_def("z", "Neg", "x", device=THERE, T="float32"),
    )


def config(executor_type: str) -> Any:
    made = proto.ConfigProto(device_count={"CPU": 2}, allow_soft_placement=True)
    made.experimental.executor_type = executor_type
    made.graph_options.optimizer_options.global_jit_level = -1  # a compiler has threads of its own
    return made


@pytest.mark.parametrize("executor_type", EXECUTORS)
def test_e8_partitions_that_wait_for_each_other_are_reported(executor_type: str) -> None:
    settings = config(executor_type)
    with no_leaked_threads(), Session(graph=two_devices(), config=settings) as session:
        assert session.run("y:0", {"x:0": 5, "p:0": True}) == -5
        with pytest.raises(errors.InternalError, match="the step is stuck") as caught:
            session.run("y:0", {"x:0": 5, "p:0": False})
        assert session.run(["y:0", "z:0"], {"x:0": 2, "p:0": True}) == [-2, -2]
    message = str(caught.value)
    assert "_out from /job:localhost/replica:0/task:0/device:CPU:0 to " in message
    assert "y (Neg) waits for out/_recv" in message
    assert (caught.value.op_type, caught.value.device[-5:]) == ("_Recv", "CPU:1")


def test_e8_blocked_nodes_are_reported_as_not_run() -> None:
    graph = graph_def(
        node_def("x", "Placeholder", dtype="float32"),
        node_def("p", "Placeholder", dtype="bool"),
        *half_dead_loop("x", "p"),
    )
    with Session(graph=graph) as session:
        with pytest.raises(errors.InvalidArgumentError, match="or its node was not run"):
            session.run("out:0", {"x:0": 5, "p:0": False})
        assert session.run("out:0", {"x:0": 5, "p:0": True}) == 5


@pytest.mark.parametrize("executor_type", EXECUTORS)
def test_s8_a_partial_run_that_is_stuck(executor_type: str) -> None:
    with Session(graph=two_devices(), config=config(executor_type)) as session:
        handle = session.partial_run_setup(["y:0", "z:0"], ["x:0", "p:0"])
        assert session.partial_run(handle, "z:0", {"x:0": 5}) == -5
        with pytest.raises(errors.InternalError, match="the step is stuck"):
            session.partial_run(handle, "y:0", {"p:0": False})
        with pytest.raises(errors.InvalidArgumentError, match="is unknown"):
            session.partial_run(handle, "y:0", {})
        assert session.run("z:0", {"x:0": 1}) == -1


@pytest.mark.parametrize("executor_type", EXECUTORS)
def test_e10_a_deadlock_in_a_function_on_two_devices_is_reported(executor_type: str) -> None:
    body = [
        node_def("here", "Identity", "x", T="float32", device=HERE),
        *half_dead_loop("here:output:0", "p"),
        node_def("y", "Neg", "out:output:0", device=THERE, T="float32"),
    ]
    for node in body:
        node.input[:] = [_in_function(text) for text in node.input]
    function = function_def("f", {"x": "float32", "p": "bool"}, {"r": ("float32", "y:y:0")}, *body)
    graph = graph_def(
        node_def("x", "Placeholder", dtype="float32"),
        node_def("p", "Placeholder", dtype="bool"),
        node_def(
            "call",
            "StatefulPartitionedCall",
            *("x", "p"),
            Tin=["float32", "bool"],
            Tout=["float32"],
            f=proto.AttrValue(func=proto.NameAttrList(name="f")),
        ),
        functions=[function],
    )
    with Session(graph=graph, config=config(executor_type)) as session:
        assert session.run("call:0", {"x:0": 5, "p:0": True}) == -5
        with pytest.raises(errors.InternalError, match="the step is stuck"):
            session.run("call:0", {"x:0": 5, "p:0": False})
        assert session.run("call:0", {"x:0": 4, "p:0": True}) == -4


_OUTPUTS = {"gate": ("output_false", "output_true"), "switch_i": ("output_false", "output_true")}
_OUTPUTS["switch"] = _OUTPUTS["gate"]
_FIRST = {"less": "z", "add_i": "z", "neg": "y"}


def _in_function(text: str) -> str:
    """Return an input name as in FunctionDefs."""
    name, _, output = text.partition(":")
    if name in ("x", "p") or ":" in output:
        return text
    names = _OUTPUTS.get(name, (_FIRST.get(name, "output"),))
    return f"{name}:{names[int(output or 0)]}:0"
