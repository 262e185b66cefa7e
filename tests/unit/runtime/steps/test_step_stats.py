"""Statistics of the nodes of a step (clause E12)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

import graphmill
from graphmill import dtypes
from graphmill.explain.node_runs import node_runs
from graphmill.runtime.dead import DEAD
from graphmill.runtime.resources.variables import Ref, ResourceHandle, Variable
from graphmill.runtime.steps.step_stats import (
    MeasuredCluster,
    MeasuredTime,
    NodeStats,
    OutputStats,
    StepStatsCollector,
    describe_outputs,
    label_of,
    record_node,
)

if TYPE_CHECKING:
    from graphmill.graph.node import Node

START = 1_700_000_000_123_456_789
STRINGS = np.array([b"a", b"bc"], dtypes.string.as_numpy_dtype)


def initialized(variable: Variable) -> Variable:
    variable.value = np.zeros((2, 2), np.float64)
    return variable


@pytest.mark.parametrize(
    ("value", "described"),
    [
        (np.zeros((2, 3), np.int16), (dtypes.int16.enum, (2, 3), 12)),
        (np.float32(1), (dtypes.float32.enum, (), 4)),
        (STRINGS, (dtypes.string.enum, (2,), 16)),
        (np.array([b"a"], object), (dtypes.string.enum, (1,), 8)),
        (np.zeros(3, dtypes.qint8.as_numpy_dtype), (dtypes.qint8.enum, (3,), 3)),
        (ResourceHandle("", "", "v", "Variable"), (dtypes.resource.enum, (), 0)),
        (Ref(dtypes.float32, None, "v"), (dtypes.float32.enum, (), 0)),
        (initialized(Ref(dtypes.float64)), (dtypes.float64.enum, (2, 2), 32)),
        (DEAD, (0, (), 0)),
        (None, (0, (), 0)),
        (object(), (0, (), 0)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_e12_outputs_of_every_kind_are_described(value: object, described: tuple) -> None:
    assert describe_outputs(value, 1) == (described,)


def test_e12_several_outputs_are_described_in_their_order() -> None:
    outputs = describe_outputs([np.int8(1), DEAD, np.zeros(2)], 3)
    assert [output.dtype for output in outputs] == [dtypes.int8.enum, 0, dtypes.float64.enum]


@pytest.mark.parametrize("result", [None, (), np.zeros(2)])
def test_e12_non_list_outputs_are_not_described(result: object) -> None:
    """Outputs that are not a list, which are refused later, are not described."""
    assert describe_outputs(result, 0 if result is None else 2) == ()


def test_e12_array_with_custom_dtype_is_described_without_it() -> None:
    class Strange:
        dtype = "mystery"
        shape = (4,)

    assert describe_outputs(Strange(), 1) == ((0, (4,), 0),)


def stats(name: str, thread: int = 7, start: int = START) -> NodeStats:
    output = OutputStats(dtypes.float32.enum, (2, 3), 24)
    return NodeStats(name, "Neg", thread, start - 500, start, start + 2500, (output,))


@pytest.fixture
def collector() -> StepStatsCollector:
    collector = StepStatsCollector()
    collector.record("/device:CPU:1", stats("c"))
    collector.record("/device:CPU:0", stats("a"))
    collector.record("/device:CPU:0", stats("b", thread=9))
    return collector


def test_e12_nodes_are_kept_by_device(collector: StepStatsCollector) -> None:
    assert [node.node_name for node in collector.nodes("/device:CPU:0")] == ["a", "b"]
    assert collector.nodes("/device:GPU:0") == []
    assert sorted(node.node_name for node in collector.nodes()) == ["a", "b", "c"]


def test_e12_the_message_has_devices_by_name_and_their_nodes(collector: StepStatsCollector) -> None:
    message = collector.to_proto()
    assert [device.device for device in message.dev_stats] == ["/device:CPU:0", "/device:CPU:1"]
    assert [node.node_name for node in message.dev_stats[0].node_stats] == ["a", "b"]
    assert [node.thread_id for node in message.dev_stats[0].node_stats] == [0, 1]


def test_e12_the_message_has_times_in_micros_and_nanos(collector: StepStatsCollector) -> None:
    node = collector.to_proto().dev_stats[0].node_stats[0]
    assert (node.all_start_nanos, node.all_start_micros) == (START, START // 1000)
    assert (node.scheduled_nanos, node.scheduled_micros) == (START - 500, (START - 500) // 1000)
    assert (node.op_end_rel_nanos, node.op_end_rel_micros) == (2500, 2)
    assert (node.all_end_rel_nanos, node.all_end_rel_micros) == (2500, 2)
    assert node.timeline_label == "a = Neg()"


def test_e12_the_message_has_the_outputs(collector: StepStatsCollector) -> None:
    (output,) = collector.to_proto().dev_stats[0].node_stats[0].output
    description = output.tensor_description
    assert (output.slot, description.dtype) == (0, dtypes.float32.enum)
    assert [dim.size for dim in description.shape.dim] == [2, 3]
    assert description.allocation_description.requested_bytes == 24


@pytest.fixture
def node() -> Node:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [2], name="x")
        return graphmill.ops.math.neg(x, name="y").op


def test_labels_contain_control_inputs_that_are_no_inputs_of_runs() -> None:
    with graphmill.Graph().as_default() as graph:
        x = graph.placeholder("float32", [2], name="x")
        y = graphmill.ops.math.neg(x, name="y")
        with graph.control_dependencies([graph.create_op("NoOp", name="first")]):
            added = graphmill.ops.math.add_v2(y, x, name="z")
            nothing = graph.create_op("NoOp", name="n")
    assert label_of(added.op) == "z = AddV2(y, x, ^first)"
    assert label_of(nothing) == "n = NoOp(^first)"
    collector = StepStatsCollector()
    record_node(collector, "/device:CPU:0", added.op, START, np.zeros(2, np.float32))
    (run,) = node_runs(collector.to_proto())
    assert (run.op, run.inputs) == ("AddV2", ("y", "x"))


@pytest.mark.parametrize(
    ("iteration", "label"), [("", "y = Neg(x)"), ("loop:3/in:0", "y = Neg(x) @ loop:3/in:0")]
)
def test_labels_end_with_the_iteration(node: Node, iteration: str, label: str) -> None:
    collector = StepStatsCollector()
    value = np.zeros(2, np.float32)
    record_node(collector, "/device:CPU:0", node, START, value, iteration=iteration)
    (stats,) = collector.to_proto().dev_stats[0].node_stats
    assert stats.timeline_label == label == collector.nodes()[0].label
    assert stats.all_start_nanos == START


def test_a_later_run_with_other_outputs_is_described_anew(node: Node) -> None:
    collector = StepStatsCollector()
    for size in (2, 3, 2):
        record_node(collector, "/device:CPU:0", node, START, np.zeros(size, np.float32))
    runs = collector.to_proto().dev_stats[0].node_stats
    shapes = [run.output[0].tensor_description.shape.dim[0].size for run in runs]
    assert shapes == [2, 3, 2]


def test_threads_have_names_and_kernels_that_waited_are_in_flight(node: Node) -> None:
    collector = StepStatsCollector()
    record_node(collector, "/device:CPU:0", node, START, None)
    record_node(collector, "/device:CPU:0", node, START, None, was_in_flight=True)
    device = collector.to_proto().dev_stats[0]
    assert dict(device.thread_names) == {0: threading.current_thread().name, 1: "in flight"}
    assert [run.thread_id for run in device.node_stats] == [0, 1]


def test_no_runs_are_an_empty_message() -> None:
    assert StepStatsCollector().serialize() == b""


def test_a_clock_that_was_set_back_gives_no_negative_length() -> None:
    collector = StepStatsCollector()
    collector.record("/device:CPU:0", NodeStats("a", "Neg", 7, START, START, START - 5, ()))
    assert collector.to_proto().dev_stats[0].node_stats[0].all_end_rel_nanos == 0


def test_iterations_are_means_over_the_runs_of_a_loop() -> None:
    collector = StepStatsCollector()
    collector.note_iterations("once", 7)
    collector.note_iterations("inner", 12, 4)
    collector.note_iterations("inner", 8)
    collector.note_iterations("not reached", 0, 0)
    assert collector.iterations() == {"once": 7.0, "inner": 4.0, "not reached": 0.0}


def test_the_last_run_of_a_cluster_is_what_was_measured() -> None:
    collector = StepStatsCollector()
    assert collector.measured("cluster") is None
    collector.note_measured("cluster", MeasuredCluster({}, "not yet"))
    last = MeasuredCluster({("a", "b"): MeasuredTime(5.0, 2)})
    collector.note_measured("cluster", last)
    assert collector.measured("cluster") is last
    assert collector.measured("other") is None
