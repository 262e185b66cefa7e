"""Partition: one graph per device, sends and receives, control loops (clause P3)."""

from __future__ import annotations

from typing import Any

import pytest

import graphmill
from graphmill import errors, ops
from graphmill.dtypes import float32
from graphmill.graph.algorithms import topological_order
from graphmill.graph.control_flow.frames import analyse_frames
from graphmill.graph.transfer_ops import NEVER_DEAD_ATTR
from graphmill.lowering.partitioning.control_loops import ControlLoops, colocate_control_flow
from graphmill.lowering.partitioning.partition import partition
from graphmill.lowering.placement.memory_types import MemoryTypeFinder
from graphmill.runtime.devices.device_mgr import DeviceMgr
from graphmill.testing.fakes.strict_device import StrictDeviceFactory
from graphmill_plugins.cpu.device import CpuDeviceFactory

PREFIX = "/job:localhost/replica:0/task:0"
CPU = [f"{PREFIX}/device:CPU:{n}" for n in range(3)]
BOXED = f"{PREFIX}/device:BOXED:0"


class Config:
    def __init__(self, **device_count: int) -> None:
        self.device_count = device_count


@pytest.fixture(scope="module")
def devices() -> DeviceMgr:
    config = Config(CPU=3, BOXED=1)
    return DeviceMgr(
        [
            *CpuDeviceFactory().create_devices(config, PREFIX),
            *StrictDeviceFactory().create_devices(config, PREFIX),
        ]
    )


def split(graph: Any, devices: DeviceMgr) -> dict[str, Any]:
    """Partition a graph whose nodes request full device names; check the partitions."""
    for node in graph.nodes:
        node.assigned_device = node.device or CPU[0]
    host = graphmill.default_host()
    parts = partition(graph, devices, host.ops, MemoryTypeFinder(host.kernels))
    for device, part in parts:
        topological_order(part)
        analyse_frames(part)
        assert {node.assigned_device for node in part.nodes} == {device.name}
    return {device.name: part for device, part in parts}


def of(part: Any, *kinds: str) -> list[Any]:
    return [node for node in part.nodes if node.op in kinds]


def entered(value: Any, frames: str) -> Any:
    """Bring a loop invariant into nested frames ("outer inner")."""
    for frame in frames.split():
        value = ops.control_flow.enter(value, frame_name=frame, is_constant=True)
    return value


def loop(graph: Any, body: str, frames: str = "w", start: Any = None) -> tuple[Any, Any, Any]:
    """Build `while i < 5: i = i + 1` with the increment on the device `body`."""
    with graph.device(CPU[0]):
        first = graph.constant(0) if start is None else start
        enter = ops.control_flow.enter(first, frame_name=frames.split()[-1])
        merge = ops.control_flow.merge([enter, enter]).output
        cond = ops.control_flow.loop_cond(ops.math.less(merge, entered(graph.constant(5), frames)))
        switch = ops.control_flow.switch(merge, cond)
    with graph.device(body):
        added = ops.math.add_v2(switch.output_true, entered(graph.constant(1), frames))
    with graph.device(CPU[0]):
        following = ops.control_flow.next_iteration(added)
        graph.replace_input(merge.op, 1, following.op, 0)
        return ops.control_flow.exit(switch.output_false), merge, switch


def test_a_graph_on_one_device_is_returned_itself_p3(devices: DeviceMgr) -> None:
    graph = graphmill.Graph()
    with graph.as_default(), graph.device(CPU[1]):
        graph.constant(1.0)
    assert split(graph, devices) == {CPU[1]: graph}


def test_tensor_is_sent_once_per_receiving_device_p3(devices: DeviceMgr) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", name="x")
        for device in (CPU[1], CPU[1], CPU[2]):
            with graph.device(device):
                ops.math.neg(x)
    parts = split(graph, devices)
    assert len(of(parts[CPU[0]], "_Send")) == 2
    assert [len(of(parts[name], "_Recv")) for name in CPU] == [0, 1, 1]


def test_send_and_receive_share_key_and_incarnation_p3(devices: DeviceMgr) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", name="x")
        with graph.device(CPU[1]):
            ops.math.neg(x)
    parts = split(graph, devices)
    (send,), (recv,) = of(parts[CPU[0]], "_Send"), of(parts[CPU[1]], "_Recv")
    names = ("tensor_name", "send_device", "send_device_incarnation", "recv_device")
    assert [send.attrs[name] for name in names] == [recv.attrs[name] for name in names]
    assert send.attrs["tensor_name"] == b"edge_1_x"
    assert send.attrs["send_device_incarnation"] == devices.host.attributes.incarnation
    assert send.attrs["client_terminated"] is False


def test_a_control_edge_crosses_as_an_empty_tensor_p3(devices: DeviceMgr) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        first = ops.control_flow.no_op(name="first")
        with graph.device(CPU[1]), graph.control_dependencies([first]):
            ops.control_flow.no_op(name="then")
    parts = split(graph, devices)
    (send,) = of(parts[CPU[0]], "_Send")
    dummy = send.in_edges[0].src
    assert dummy.attrs["value"].numpy().shape == (0,)
    assert dummy.control_inputs == [parts[CPU[0]].node("first")]
    (identity,) = parts[CPU[1]].node("then").control_inputs
    assert (identity.op, identity.in_edges[0].src.op) == ("Identity", "_Recv")


def test_receives_are_live_without_control_flow_p3(devices: DeviceMgr) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", name="x")
        with graph.device(CPU[1]):
            ops.math.neg(x)
    (recv,) = of(split(graph, devices)[CPU[1]], "_Recv")
    assert recv.attrs[NEVER_DEAD_ATTR]


def test_reference_is_sent_per_consumer_after_its_control_inputs_p3(
    devices: DeviceMgr,
) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        ref = ops.state.variable_v2(shape=(), dtype="float32", name="v")
        assign = ops.state.assign(ref, graph.constant(1.0), name="assign")
        with graph.device(CPU[1]):
            ops.math.neg(ref)
            with graph.control_dependencies([assign]):
                ops.math.abs(ref)
    home = split(graph, devices)[CPU[0]]
    sends = [send for send in of(home, "_Send") if send.in_edges[0].src.op == "VariableV2"]
    assert sorted([n.name for n in send.control_inputs] for send in sends) == [[], ["assign"]]


def test_a_reference_itself_does_not_leave_its_device_p3(devices: DeviceMgr) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        ref = ops.state.variable_v2(shape=(), dtype="float32", name="v")
        with graph.device(CPU[1]):
            ops.state.assign(ref, graph.constant(1.0), name="assign")
    with pytest.raises(errors.InvalidArgumentError, match="cannot cross devices"):
        split(graph, devices)


def test_host_memory_sends_and_receives_use_host_ops_p2_p3(devices: DeviceMgr) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", name="x")
        shape = graph.placeholder("int32", name="shape")
        with graph.device(BOXED):
            y = ops.array.reshape(x, shape, name="y")
            size = ops.array.size(y)
        ops.math.neg(y)
        ops.math.neg(size)
    parts = split(graph, devices)
    boxed = parts[BOXED]
    assert [edge.src.op for edge in boxed.node("y").in_edges] == ["_Recv", "_HostRecv"]
    by_source = {send.in_edges[0].src.op: send.op for send in of(boxed, "_Send", "_HostSend")}
    assert by_source == {"Reshape": "_Send", "Size": "_HostSend"}


def test_loop_across_devices_gets_a_control_loop_p3(devices: DeviceMgr) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        loop(graph, CPU[1])
    parts = split(graph, devices)
    other = parts[CPU[1]]
    (merge,) = of(other, "Merge")
    (switch,) = of(other, "Switch")
    (following,) = of(other, "NextIteration")
    assert [edge.src.op for edge in merge.in_edges] == ["Enter", "NextIteration"]
    assert switch.in_edges[0].src is merge
    assert switch.in_edges[1].src.op == "_Recv"
    assert following.in_edges[0] in switch.out_edges
    assert all(recv.control_inputs == [merge] for recv in of(other, "_Recv"))
    enter = merge.in_edges[0].src
    assert enter.attrs["frame_name"] == b"w"
    assert enter.in_edges[0].src.op == "Const"


def test_control_loops_nest_as_the_frames_do_p3(devices: DeviceMgr) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        _, _, switch = loop(graph, CPU[0], "outer")
        loop(graph, CPU[1], "outer inner", start=switch.output_true)
    other = split(graph, devices)[CPU[1]]
    frames, _ = analyse_frames(other)
    enters = {frames[n]: n for n in of(other, "Enter") if n.name.startswith("_cloop")}
    assert set(enters) == {(), ("outer",)}
    assert enters[("outer",)].in_edges[0].src.op == "Merge"
    assert {frames[recv] for recv in of(other, "_Recv")} >= {("outer", "inner")}


def test_control_flow_nodes_go_to_their_values_p3(devices: DeviceMgr) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        result, merge, switch = loop(graph, CPU[0])
    for node in graph.nodes:
        node.device = CPU[0]
    for node in (merge.op.in_edges[0].src, merge.op.in_edges[1].src, switch[0].op, result.op):
        node.device = CPU[2]
    assert set(split(graph, devices)) == {CPU[0]}


def test_control_loops_that_a_master_added_are_taken_p3(devices: DeviceMgr) -> None:
    def nested() -> Any:
        graph = graphmill.Graph()
        with graph.as_default():
            _, _, switch = loop(graph, CPU[0], "outer")
            loop(graph, CPU[1], "outer inner", start=switch.output_true)
        return graph

    nested_graph = nested()
    for node in nested_graph.nodes:
        node.device = node.assigned_device = node.device or CPU[0]
    colocate_control_flow(nested_graph)
    loops = ControlLoops(nested_graph, graphmill.default_host().ops)
    assert not loops.were_given
    loops.add()
    for node in nested_graph.nodes:
        node.device = node.assigned_device
    assert ControlLoops(nested_graph, graphmill.default_host().ops).were_given
    expected, found = split(nested(), devices), split(nested_graph, devices)
    assert set(found) == set(expected)
    for name, part in found.items():
        recvs = {n.attrs["tensor_name"]: n.control_inputs[0].name for n in of(part, "_Recv")}
        assert recvs
        assert recvs == {
            n.attrs["tensor_name"]: n.control_inputs[0].name for n in of(expected[name], "_Recv")
        }


def test_foreign_receive_may_be_dead_p3(devices: DeviceMgr) -> None:
    graph = graphmill.Graph()
    op_def = graphmill.default_host().ops.get("_Recv")
    attrs = {
        "tensor_type": float32,
        "tensor_name": b"edge_1_x",
        "send_device": b"/job:other/replica:0/task:0/device:CPU:0",
        "send_device_incarnation": -2,
        "recv_device": CPU[0].encode(),
    }
    graph.add_node("recv", op_def, [], attrs=op_def.with_defaults(attrs), device=CPU[0])
    with graph.as_default(), graph.device(CPU[1]):
        ops.math.neg(graph.get_tensor_by_name("recv:0"))
    (local,) = of(split(graph, devices)[CPU[1]], "_Recv")
    assert NEVER_DEAD_ATTR not in local.attrs


def test_a_loop_without_a_condition_cannot_cross_p3(devices: DeviceMgr) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        inside = ops.math.neg(entered(graph.constant(1.0), "f"))
        with graph.device(CPU[1]):
            outside = ops.math.neg(inside)
        ops.control_flow.exit(outside)
    with pytest.raises(errors.InvalidArgumentError, match="must have a pivot predicate"):
        split(graph, devices)
