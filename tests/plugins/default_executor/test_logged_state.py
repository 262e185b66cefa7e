"""The logs of nodes and of memory, and the marks in a profile."""

from __future__ import annotations

import logging
import sys
import types
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import dtypes, errors, ops
from graphmill.ops.definition.op_def import ArgDef, OpDef

if TYPE_CHECKING:
    from collections.abc import Iterator

NODES, MEMORY = "graphmill.executor", "graphmill.memory"


def session_of(**config: Any) -> graphmill.Session:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [2], name="x")
        y = ops.math.neg(x, name="y")
        ops.array.check_numerics(y, message="found", name="checked")
        queue = ops.data_flow.fifo_queue_v2(component_types=["float32"], shapes=[[2]], name="queue")
        ops.data_flow.queue_enqueue_v2(queue, [y], name="put")
        ops.data_flow.queue_dequeue_v2(queue, component_types=["float32"], name="got")
    return graphmill.Session(graph=graph, config=config or None)


def messages(caplog: pytest.LogCaptureFixture, logger: str) -> list[str]:
    return [record.message for record in caplog.records if record.name == logger]


def test_each_node_of_a_step_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger=NODES)
    with session_of() as session:
        session.run("y:0", {"x:0": [1, 2]})
    found = [text for text in messages(caplog, NODES) if "{{node y}}" in text]
    device = "device: /job:localhost/replica:0/task:0/device:CPU:0"
    node = "{{node y}} = Neg[T=float32](_arg_x_0_0)"
    assert [text.partition(": ")[0] for text in found] == [
        "Process node",
        "Synchronous kernel done",
    ]
    assert all(node in text and text.endswith(device) for text in found)
    assert not messages(caplog, MEMORY)


def test_a_kernel_that_waits_is_logged_when_it_is_done(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger=NODES)
    with session_of() as session:
        session.run(["got:0"], {"x:0": [1, 2]}, targets=["put"])
    assert any(
        text.startswith(("Async kernel done", "Synchronous kernel done")) and "{{node got}}" in text
        for text in messages(caplog, NODES)
    )


def test_the_error_that_ends_a_step_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger=NODES)
    with session_of() as session, pytest.raises(errors.InvalidArgumentError):
        session.run("checked:0", {"x:0": [1, np.nan]})
    assert any("Executor start aborting: found" in text for text in messages(caplog, NODES))


def test_memory_of_outputs_is_logged_by_step_and_kernel(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger=MEMORY)
    with session_of() as session:
        session.run("y:0", {"x:0": [1, 2]})
    step, *outputs = messages(caplog, MEMORY)
    assert step.startswith("__LOG_MEMORY__ MemoryLogStep { step_id: ")
    assert 'handle: "direct-' in step
    (output,) = (text for text in outputs if 'kernel_name: "y"' in text)
    assert "requested_bytes: 8" in output
    assert 'allocator_name: "cpu"' in output
    assert not messages(caplog, NODES)


def test_debug_level_of_the_root_logger_turns_no_log_on(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with session_of() as session:
        session.run("y:0", {"x:0": [1, 2]})
    assert not [text for text in messages(caplog, NODES) if "{{node" in text]
    assert not messages(caplog, MEMORY)


class Unmade:
    """An op whose kernel cannot be made."""

    @graphmill.hookimpl
    def graphmill_register_ops(self, ops: Any) -> None:
        ops.add(OpDef("Mine>Unmade", output_args=(ArgDef("y", dtypes.float32),)))

    @graphmill.hookimpl
    def graphmill_register_kernels(self, kernels: Any) -> None:
        @graphmill.kernel("Mine>Unmade")
        class Kernel:
            def __init__(self, construction: Any) -> None:
                raise errors.InvalidArgumentError("it cannot be made")

            def __call__(self) -> Any:
                """Never called."""

        kernels.add(Kernel)


def test_a_kernel_that_cannot_be_made_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    host = graphmill.Host(plugins=[Unmade()])
    graph = graphmill.Graph(host.ops)
    graph.create_op("Mine>Unmade", [], name="made")
    with (
        graphmill.Session(graph=graph, host=host) as session,
        pytest.raises(errors.InvalidArgumentError, match="it cannot be made"),
    ):
        session.run("made:0")
    assert any(
        text.startswith("Executor failed to create kernel.") and "made" in text
        for text in messages(caplog, NODES)
    )


@pytest.mark.parametrize("executor", ["DEFAULT", "SINGLE_THREADED_EXECUTOR"])
def test_a_traced_step_is_marked_in_a_profile(
    executor: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_marks: list[str] = []
    seen: list[tuple[str, ...]] = []

    @contextmanager
    def mark(name: str, **details: Any) -> Iterator[None]:
        open_marks.append(name)
        seen.append((*open_marks, *details))
        yield
        open_marks.pop()

    profiler = types.SimpleNamespace(TraceAnnotation=mark, StepTraceAnnotation=mark)
    monkeypatch.setitem(sys.modules, "jax.profiler", profiler)
    with session_of(experimental={"executor_type": executor}) as session:
        session.run("y:0", {"x:0": [1, 2]})
        assert not seen
        session.run("y:0", {"x:0": [1, 2]}, options={"trace_level": "FULL_TRACE"})
    assert seen == [
        ("SessionRun", "step_num"),
        ("SessionRun", "y:Neg", "step_id", "device"),
    ]
