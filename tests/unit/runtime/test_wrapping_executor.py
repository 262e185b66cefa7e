"""Executors that run another executor."""

from __future__ import annotations

from typing import Any

import pytest

import graphmill
from graphmill import errors
from graphmill.runtime.executor import Executor, ExecutorArgs, ExecutorFactory
from graphmill.runtime.kernels.op_kernel import OpKernel
from graphmill.runtime.steps.call_frame import CallFrame
from graphmill.runtime.wrapping_executor import WrappingExecutor, executor_over


class Inner(Executor):
    def __init__(self, events: list[Any]) -> None:
        self.events = events

    def run_async(self, args: ExecutorArgs, done: Any) -> None:
        self.events.append("run")
        done(None)

    def close(self) -> None:
        self.events.append("close")


class Noting(WrappingExecutor):
    refuses = False

    def begin(self, args: ExecutorArgs) -> None:
        if self.refuses:
            raise errors.UnavailableError("not now")
        self.inner.events.append("begin")  # type: ignore[attr-defined]

    def end(self, args: ExecutorArgs) -> None:
        self.inner.events.append("end")  # type: ignore[attr-defined]


def test_wrapping_executor_is_called_around_each_run() -> None:
    events: list[Any] = []
    executor = Noting(Inner(events))
    executor.run_async(ExecutorArgs(1, CallFrame([], 0)), events.append)
    executor.close()
    assert events == ["begin", "run", "end", None, "close"]


def test_wrapping_executor_can_refuse_a_run() -> None:
    events: list[Any] = []
    executor = Noting(Inner(events))
    executor.refuses = True
    with pytest.raises(errors.UnavailableError, match="not now"):
        executor.run(ExecutorArgs(1, CallFrame([], 0)))
    assert events == []


class DoublingFactory(ExecutorFactory):
    """An executor that doubles the result of `Relu`."""

    def new_executor(self, params: Any, graph: Any) -> Executor:
        def wrap(node: Any, kernel: OpKernel) -> OpKernel:
            if node.op != "Relu":
                return kernel
            return kernel.with_call(lambda x: 2 * kernel.compute(x))

        return executor_over(params, graph, wrap)


def test_executor_over_runs_the_default_one_with_changed_kernels() -> None:
    host = graphmill.Host()
    host.executors.add("DOUBLING", DoublingFactory, owner="this test")
    config = graphmill.ConfigProto()
    config.experimental.executor_type = "DOUBLING"
    graph = graphmill.Graph()
    with graph.as_default():
        y = graphmill.ops.nn.relu(graph.placeholder("float32", name="x"), name="y")
    with graphmill.Session(graph=graph, config=config, host=host) as session:
        assert session.run(y, {"x:0": [-1.0, 2.0]}).tolist() == [0.0, 4.0]


def test_with_call_preserves_other_fields() -> None:
    from graphmill.runtime.kernels.kernel import KernelDef

    declared = KernelDef("Twice", len)
    kernel = OpKernel(len, declared, "t", "Twice", owner="me")
    kernel.state["seen"] = 1
    made = kernel.with_call(max, stateful=True, async_=True)
    assert (made.compute, made.definition.stateful, made.definition.async_) == (max, True, True)
    assert (made.node_name, made.owner, made.state) == ("t", "me", {"seen": 1})
    assert kernel.compute is len
    assert kernel.definition is declared
