"""Ctrl-C ends a blocked step, and the session stays usable (clauses S6, S11).

The signal is sent when the main thread is about to wait for what never comes.
"""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Any

import pytest

import graphmill
from graphmill import dtypes, ops, proto
from graphmill.graph.builder import Graph
from graphmill.ops.definition.op_def import ArgDef, OpDef
from graphmill.runtime.executor import Executor, ExecutorFactory
from graphmill.testing.timeouts import no_leaked_threads, within

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [
    pytest.mark.skipif(
        threading.current_thread() is not threading.main_thread(), reason="signals go to main"
    ),
    pytest.mark.usefixtures("interruptible"),
]

LONG = proto.RunOptions(timeout_in_ms=600_000)


def interrupt() -> None:
    """Send SIGINT from another thread."""
    threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGINT)).start()


class Wrapper(Executor):
    """The DEFAULT executor, wrapped."""

    is_bad = False

    def __init__(self, inner: Executor) -> None:
        self.inner = inner

    def run_async(self, args: Any, done: Any) -> None:
        self.inner.run_async(args, done)


class NeverDone(Wrapper):
    """Never calls `done`; the kernel sends SIGINT once."""

    def run_async(self, args: Any, done: Any) -> None:
        self.inner.run_async(args, lambda error: None if Wrapper.is_bad else done(error))


class NeverReturns(Wrapper):
    """Blocks in `run_async`; in a step with a deadline in a separate thread."""

    never = threading.Event()

    def run_async(self, args: Any, done: Any) -> None:
        if Wrapper.is_bad:
            interrupt()
            self.never.wait()
        self.inner.run_async(args, done)


def factory(executor: type[Wrapper]) -> type[ExecutorFactory]:
    class Factory(ExecutorFactory):
        def new_executor(self, params: Any, graph: Any) -> Executor:
            return executor(params.find_executor("DEFAULT").new_executor(params, graph))

    return Factory


class Plugin:
    """Executors whose runs do not end, and an op whose kernel does not."""

    @graphmill.hookimpl
    def graphmill_register_executors(self, executors: Any) -> None:
        executors.add("NEVER_DONE", factory(NeverDone))
        executors.add("NEVER_RETURNS", factory(NeverReturns))

    @graphmill.hookimpl
    def graphmill_register_ops(self, ops: Any) -> None:
        x, y = ArgDef("x", dtypes.float32), ArgDef("y", dtypes.float32)
        ops.add(OpDef("Mine>Wait", (x,), (y,), is_stateful=True))

    @graphmill.hookimpl
    def graphmill_register_kernels(self, kernels: Any) -> None:
        @graphmill.kernel("Mine>Wait", async_=True)
        def wait(ctx: Any, x: Any, *, done: Callable[..., None]) -> None:
            if Wrapper.is_bad:
                interrupt()
            else:
                done(x)

        kernels.add(wait)


@pytest.fixture
def host() -> graphmill.Host:
    return graphmill.Host(plugins=[Plugin()])


@pytest.fixture
def bad(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    with monkeypatch.context() as patch:
        patch.setattr(Wrapper, "is_bad", True)
        patch.setattr(NeverReturns, "never", threading.Event())
        yield patch
    NeverReturns.never.set()


def session_of(executor: str, host: graphmill.Host, num_devices: int) -> graphmill.Session:
    graph = Graph(ops=host.ops)
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        with graph.device(f"/device:CPU:{num_devices - 1}"):
            waits = graph.outputs_of(graph.create_op("Mine>Wait", [x]))[0]
        with graph.device("/device:CPU:0"):
            ops.math.neg(waits, name="y")
    config = proto.ConfigProto(device_count={"CPU": num_devices})
    config.experimental.executor_type = executor
    return graphmill.Session(graph=graph, host=host, config=config)


@pytest.mark.parametrize("options", [None, LONG], ids=["no deadline", "a deadline"])
@pytest.mark.parametrize("num_devices", [1, 2])
@pytest.mark.parametrize("executor", ["DEFAULT", "INLINE", "NEVER_DONE", "NEVER_RETURNS"])
def test_ctrl_c_ends_a_step_that_would_never_end(
    executor: str, num_devices: int, options: Any, host: graphmill.Host, bad: pytest.MonkeyPatch
) -> None:
    with no_leaked_threads(but=("graphmill-step",)):
        session = session_of(executor, host, num_devices)
        with pytest.raises(KeyboardInterrupt):
            session.run("y:0", {"x:0": 1.0}, options=options)
        bad.setattr(Wrapper, "is_bad", False)
        assert session.run("y:0", {"x:0": 2.0}, options=options) == -2
        within(session.close, "closing a session of which a step was interrupted")


def test_ctrl_c_ends_a_wait_in_a_partial_run(host: graphmill.Host, bad: pytest.MonkeyPatch) -> None:
    session = session_of("", host, 1)
    handle = session.partial_run_setup(["y:0"], ["x:0"])
    with pytest.raises(KeyboardInterrupt):
        session.partial_run(handle, "y:0", {"x:0": 1.0})
    bad.setattr(Wrapper, "is_bad", False)
    assert session.run("y:0", {"x:0": 2.0}) == -2
    within(session.close, "closing a session of which a partial run was interrupted")


def test_an_interrupted_wait_has_a_location() -> None:
    graph = Graph()
    with graph.as_default():
        queue = ops.data_flow.fifo_queue_v2(component_types=["float32"])
        ops.data_flow.queue_dequeue_v2(queue, component_types=["float32"], name="got")
    with graphmill.Session(graph=graph) as session:

        def interrupt_the_wait() -> None:
            while not session.waits():
                pass
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt_the_wait)
        thread.start()
        with pytest.raises(KeyboardInterrupt) as caught:
            session.run("got:0")
        thread.join()
    location: Any = caught.value
    assert (location.node, location.op_type) == ("got", "QueueDequeueV2")
    assert location.device.endswith("CPU:0")
    assert "an element of FIFOQueue" in caught.value.__notes__[0]
