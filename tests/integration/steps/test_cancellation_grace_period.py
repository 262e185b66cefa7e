"""Deadlines hold without the cooperation of executors and kernels (clauses E13, S6, S11)."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import dtypes, errors, ops, proto
from graphmill.graph.builder import Graph
from graphmill.ops.definition.op_def import ArgDef, OpDef
from graphmill.runtime.executor import Executor, ExecutorFactory
from graphmill.runtime.steps import cancel_grace
from graphmill.runtime.threads import abandonable_thread
from graphmill.session.session import Session

SOON = proto.RunOptions(timeout_in_ms=20)
LATE = proto.RunOptions(timeout_in_ms=60_000)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cancel_grace, "RUN_END_GRACE_SECONDS", 0.05)


class Forgetful(Executor):
    """The DEFAULT executor, which can omit `done`."""

    forgets = True

    def __init__(self, inner: Executor) -> None:
        self.inner = inner

    def run_async(self, args: Any, done: Any) -> None:
        self.inner.run_async(args, lambda error: None if Forgetful.forgets else done(error))


class Factory(ExecutorFactory):
    def new_executor(self, params: Any, graph: Any) -> Executor:
        return Forgetful(params.find_executor("DEFAULT").new_executor(params, graph))


class Stuck(Forgetful):
    """The DEFAULT executor, whose call blocks until the test continues it."""

    release = threading.Event()

    def run_async(self, args: Any, done: Any) -> None:
        self.release.wait(30)
        self.inner.run_async(args, done)


class Prompt(Forgetful):
    """The DEFAULT executor, which records its thread."""

    honours_deadlines = False
    thread = 0

    def run_async(self, args: Any, done: Any) -> None:
        type(self).thread = threading.get_ident()
        self.inner.run_async(args, done)


class StuckFactory(ExecutorFactory):
    def new_executor(self, params: Any, graph: Any) -> Executor:
        return Stuck(params.find_executor("DEFAULT").new_executor(params, graph))


class PromptFactory(ExecutorFactory):
    def new_executor(self, params: Any, graph: Any) -> Executor:
        return Prompt(params.find_executor("DEFAULT").new_executor(params, graph))


class Plugin:
    """An executor that does not end, and an op whose kernel does not end."""

    def __init__(self) -> None:
        self.release = threading.Event()

    @graphmill.hookimpl
    def graphmill_register_executors(self, executors: Any) -> None:
        executors.add("FORGETFUL", Factory)
        executors.add("STUCK", StuckFactory)
        executors.add("PROMPT", PromptFactory)

    @graphmill.hookimpl
    def graphmill_register_ops(self, ops: Any) -> None:
        for name in ("Never", "Long"):
            ops.add(OpDef(f"Mine>{name}", output_args=(ArgDef("y", dtypes.float32),)))

    @graphmill.hookimpl
    def graphmill_register_kernels(self, kernels: Any) -> None:
        @graphmill.kernel("Mine>Never", async_=True)
        def never(ctx: Any, *, done: Any) -> None:
            """Never call `done`, even after cancellation."""

        @graphmill.kernel("Mine>Long", async_=True)
        def long(ctx: Any, *, done: Any) -> None:
            """Compute in the pool until the test continues it."""
            runner = ctx.args.runner
            runner.num_computing += 1

            def compute() -> None:
                self.release.wait(30)
                runner.post(ended)

            def ended() -> None:
                runner.num_computing -= 1
                done(np.float32(1))

            threading.Thread(target=compute, daemon=True).start()

        kernels.add(never)
        kernels.add(long)


@pytest.fixture
def plugin() -> Plugin:
    return Plugin()


@pytest.fixture
def host(plugin: Plugin) -> graphmill.Host:
    return graphmill.Host(plugins=[plugin])


def config(executor: str, **fields: Any) -> proto.ConfigProto:
    made = proto.ConfigProto(**fields)
    made.experimental.executor_type = executor
    return made


def test_executor_that_never_calls_done_is_named_and_abandoned(
    host: graphmill.Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = Graph()
    with graph.as_default():
        y = ops.math.neg(graph.placeholder("float32", [], name="x"))
    with Session(graph=graph, host=host, config=config("FORGETFUL")) as session:
        for _ in range(2):
            with pytest.raises(errors.DeadlineExceededError) as caught:
                session.run(y, {"x:0": 1.0}, options=SOON)
            assert "timeout of 20 ms" in str(caught.value)
            assert "Forgetful of plugin" in str(caught.value)
            assert "`done` was not called" in str(caught.value)
            assert caught.value.plugin == host.executors.provenance("FORGETFUL").plugin
        monkeypatch.setattr(Forgetful, "forgets", False)
        assert session.run(y, {"x:0": 1.0}, options=LATE) == -1.0


def test_the_timeout_of_the_session_holds_too(host: graphmill.Host) -> None:
    graph = Graph()
    with graph.as_default():
        y = ops.math.neg(1.0)
    limited = config("FORGETFUL", operation_timeout_in_ms=20)
    with (
        Session(graph=graph, host=host, config=limited) as session,
        pytest.raises(errors.DeadlineExceededError, match="`done` was not called"),
    ):
        session.run(y)


def test_executor_that_never_returns_is_abandoned(
    host: graphmill.Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stuck, "release", threading.Event())
    monkeypatch.setattr(abandonable_thread, "RUN_ASYNC_GRACE_SECONDS", 0.05)
    graph = Graph()
    with graph.as_default():
        y = ops.math.neg(graph.placeholder("float32", [], name="x"))
    with Session(graph=graph, host=host, config=config("STUCK")) as session:
        with pytest.raises(errors.DeadlineExceededError, match="has not returned") as caught:
            session.run(y, {"x:0": 1.0}, options=SOON)
        assert "Stuck of plugin" in str(caught.value)
        assert caught.value.plugin == host.executors.provenance("STUCK").plugin
        Stuck.release.set()
        assert session.run(y, {"x:0": 1.0}, options=LATE) == -1.0


def test_session_close_ends_step_of_hanging_executor_with_deadline(
    host: graphmill.Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Stuck, "release", threading.Event())
    monkeypatch.setattr(abandonable_thread, "RUN_ASYNC_GRACE_SECONDS", 0.05)
    graph = Graph()
    with graph.as_default():
        y = ops.math.neg(1.0)
    limited = config("STUCK", operation_timeout_in_ms=600_000)
    session = Session(graph=graph, host=host, config=limited)
    outcome: list[BaseException] = []

    def step() -> None:
        try:
            session.run(y)
        except errors.OpError as error:
            outcome.append(error)

    thread = threading.Thread(target=step)
    thread.start()
    while not session._impl.cancellation._callbacks and thread.is_alive():
        pass
    session.close()
    thread.join(30)
    Stuck.release.set()
    assert isinstance(outcome[0], errors.CancelledError)
    assert "Stuck of plugin" in str(outcome[0])


def test_closing_the_session_ends_such_a_step(host: graphmill.Host) -> None:
    graph = Graph()
    with graph.as_default():
        y = ops.math.neg(1.0)
    session = Session(graph=graph, host=host, config=config("FORGETFUL"))
    outcome: list[BaseException] = []

    def step() -> None:
        try:
            session.run(y)
        except errors.OpError as error:
            outcome.append(error)

    thread = threading.Thread(target=step, daemon=True)
    thread.start()
    while not session._impl.cancellation._callbacks and thread.is_alive():
        pass
    session.close()
    thread.join(30)
    assert isinstance(outcome[0], errors.CancelledError)
    assert "`done` was not called" in str(outcome[0])


def test_deadlines_hold_on_several_devices(host: graphmill.Host) -> None:
    graph = Graph()
    with graph.as_default():
        with graph.device("/device:CPU:0"):
            x = ops.math.neg(1.0)
        with graph.device("/device:CPU:1"):
            y = ops.math.neg(x)
    several = config("FORGETFUL", device_count={"CPU": 2})
    with (
        Session(graph=graph, host=host, config=several) as session,
        pytest.raises(errors.DeadlineExceededError, match="`done` was not called"),
    ):
        session.run(y, options=SOON)


@pytest.mark.parametrize("executor", ["DEFAULT", "INLINE", "SINGLE_THREADED_EXECUTOR"])
def test_a_kernel_that_never_ends_is_abandoned(executor: str, host: graphmill.Host) -> None:
    graph = Graph(ops=host.ops)
    with graph.as_default():
        y = ops.math.neg(graph.outputs_of(graph.create_op("Mine>Never", name="never"))[0])
    with Session(graph=graph, host=host, config=config(executor)) as session:
        with pytest.raises(errors.DeadlineExceededError, match="timeout of 20 ms"):
            session.run(y, options=SOON)
        assert session.run("Neg:0", {"never:0": 2.0}) == -2.0


def test_pool_kernels_are_joined_within_grace_period(plugin: Plugin, host: graphmill.Host) -> None:
    graph = Graph(ops=host.ops)
    graph.create_op("Mine>Long", name="long")
    timer = threading.Timer(0.3, plugin.release.set)
    timer.start()
    with Session(graph=graph, host=host) as session:
        with pytest.raises(errors.DeadlineExceededError) as caught:
            session.run("long:0", options=SOON)
        assert plugin.release.is_set()
        assert "`done`" not in str(caught.value)


def test_partial_run_is_abandoned(host: graphmill.Host) -> None:
    graph = Graph(ops=host.ops)
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        ops.math.neg(x, name="y")
        never = graph.outputs_of(graph.create_op("Mine>Never", name="never"))[0]
        ops.math.add_v2(x, never, name="z")
    session = Session(graph=graph, host=host)
    handle = session.partial_run_setup(["y:0", "z:0"], ["x:0"])
    assert session.partial_run(handle, "y:0", {"x:0": 1.0}) == -1.0
    session.close()


@pytest.mark.parametrize("honours", [False, True])
def test_executor_that_honours_deadlines_runs_in_calling_thread(
    host: graphmill.Host, honours: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Prompt, "honours_deadlines", honours)
    graph = graphmill.Graph()
    with graph.as_default():
        y = graphmill.ops.nn.relu(graph.placeholder("float32", name="x"), name="y")
    options = proto.RunOptions(timeout_in_ms=60_000)
    with graphmill.Session(graph=graph, host=host, config=config("PROMPT")) as session:
        session.run(y, {"x:0": [1.0]}, options=options)
    assert (Prompt.thread == threading.get_ident()) == honours
