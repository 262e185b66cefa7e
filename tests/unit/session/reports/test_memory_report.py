"""`report_tensor_allocations_upon_oom`: the error lists the holders of memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops
from graphmill.runtime.devices.allocator import LimitedAllocator
from graphmill.runtime.resources.variables import Variable
from graphmill.session.reports.memory_report import add_memory_report


def session_with_a_variable() -> graphmill.Session:
    graph = graphmill.Graph()
    with graph.as_default():
        handle = ops.state.var_handle_op(
            dtype="float32", shape=[100], shared_name="weights", name="weights"
        )
        graph.create_op("AssignVariableOp", [handle, graph.constant([0.5] * 100)], name="assign")
        x = graph.placeholder("float32", [None], name="x")
        sizes = graph.placeholder("int32", [3], name="sizes")
        with graph.control_dependencies([ops.math.square(x, name="squared").op]):
            ops.array.fill(sizes, graph.constant(1.0), name="huge")
    session = graphmill.Session(graph=graph)
    session.run("assign")
    return session


def message(**options: Any) -> str:
    feeds = {"x:0": np.ones(10), "sizes:0": [1 << 20] * 3}
    metadata = graphmill.RunMetadata()
    with (
        session_with_a_variable() as session,
        pytest.raises(errors.ResourceExhaustedError) as caught,
    ):
        session.run("huge:0", feeds, options=options, run_metadata=metadata)
    assert not metadata.step_stats.dev_stats
    return caught.value.message


def test_variables_and_outputs_are_listed_by_size() -> None:
    text = message(report_tensor_allocations_upon_oom=True)
    _, _, device, first, second, *_ = text.splitlines()
    assert device == "Current usage from device: /job:localhost/replica:0/task:0/device:CPU:0"
    assert first == "  400 bytes from variable weights"
    assert second == "  40 bytes from squared (computed in this step)"


def test_nothing_is_listed_by_default() -> None:
    assert "Current usage" not in message()


def test_many_are_summed_up_and_the_allocator_is_asked() -> None:
    from graphmill.runtime.steps.step_stats import StepStatsCollector

    with graphmill.Session(graph=graphmill.Graph()) as session:
        inner: Any = session._impl
        (device,) = inner.devices
        for number in range(25):
            variable = Variable(graphmill.dtypes.float32, (2,), f"v{number}")
            variable.value = np.zeros(2, np.float32)
            device.resource_mgr.create("", f"v{number}", variable)
        allocator = LimitedAllocator(device.name)
        held = allocator.allocate(64)
        device.allocator = lambda: allocator
        error = errors.ResourceExhaustedError("full")
        add_memory_report(error, [device], StepStatsCollector())
        assert len(held) == 64
    head, *lines = error.message.splitlines()[2:]
    assert head.endswith(", 64 bytes in use")
    assert len(lines) == 21
    assert lines[-1] == "  40 bytes from 5 others"
