"""Memory types: values in host memory, and copies between memories (clause P2)."""

from __future__ import annotations

from typing import Any

import pytest

import graphmill
from graphmill import ops
from graphmill.lowering.placement.memory_types import MemoryTypeFinder, ensure_memory_types
from graphmill.runtime.devices.device import Device, DeviceAttributes
from graphmill.testing.fakes.strict_device import StrictDevice
from graphmill_plugins.cpu.device import CpuDevice


@pytest.fixture
def device() -> Device:
    return StrictDevice(DeviceAttributes("/job:a/replica:0/task:0/device:BOXED:0", "BOXED"))


@pytest.fixture
def finder() -> MemoryTypeFinder:
    return MemoryTypeFinder(graphmill.default_host().kernels)


def sources(graph: Any, name: str) -> list[str]:
    return [edge.src.op for edge in graph.node(name).in_edges]


def test_kernel_declares_host_memory_inputs_p2(device, finder) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32")
        reshaped = ops.array.reshape(x, graph.placeholder("int32"))
        shape = ops.array.shape(x)
        switch = ops.control_flow.switch(x, graph.placeholder("bool"))
    assert finder.of(reshaped.op, device).inputs == (False, True)
    assert finder.of(shape.op, device).outputs == (True,)
    assert finder.of(switch[0].op, device).inputs == (False, True)


def test_strings_handles_and_host_kernels_are_on_the_host_p2(device, finder) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        text = ops.array.identity(graph.placeholder("string"))
        handle = ops.state.var_handle_op(dtype="float32", shape=())
        joined = ops.string.string_length(graph.placeholder("string"))
    assert finder.of(text.op, device).outputs == (True,)
    assert finder.of(handle.op, device).outputs == (True,)
    assert finder.of(joined.op, device).outputs == (True,)


def test_copies_are_inserted_once_where_memories_meet_p2(device, finder) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", name="x")
        number = graph.placeholder("int32", name="number")
        ops.array.reshape(x, number, name="one")
        ops.array.reshape(x, number, name="two")
        ops.math.neg(ops.array.size(x), name="neg")
    ensure_memory_types(graph, device, finder)
    assert sources(graph, "one") == sources(graph, "two") == ["Placeholder", "_CopyToHost"]
    assert sources(graph, "neg") == ["_CopyToDevice"]
    assert sum(node.op == "_CopyToHost" for node in graph.nodes) == 1


def test_host_values_are_not_copied_p2(device, finder) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", name="x")
        ops.array.reshape(x, ops.array.shape(x), name="y")
    before = len(graph)
    ensure_memory_types(graph, device, finder)
    assert len(graph) == before


def test_no_copies_are_inserted_on_a_cpu_p2(finder) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", name="x")
        ops.array.reshape(x, graph.placeholder("int32"), name="y")
    before = len(graph)
    cpu = CpuDevice(DeviceAttributes("/job:a/replica:0/task:0/device:CPU:0", "CPU"))
    ensure_memory_types(graph, cpu, finder)
    assert len(graph) == before
