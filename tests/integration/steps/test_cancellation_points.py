"""Cancel a step at each of its cancellation points: nothing leaks, the session survives (E13, E8).

The step has a loop with a conditional in it, a kernel that another thread ends, one in the pool, a
queue that is waited for, and values that cross devices and come back.
"""

from __future__ import annotations

import gc
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import graphmill
from graphmill import dtypes, errors, ops, proto
from graphmill.ops.definition.op_def import ArgDef, OpDef
from graphmill.plugin.markers import hookimpl
from graphmill.runtime.kernels.kernel import kernel
from graphmill.runtime.rendezvous import IntraProcessRendezvous
from graphmill.runtime.steps.cancellation import CancellationManager
from graphmill.runtime.steps.step_runner import StepRunner
from graphmill.runtime.threads.thread_pool import ThreadPool
from graphmill.session.steps import step_with_options
from graphmill.testing.timeouts import TIMEOUT, no_leaked_threads
from graphmill_plugins.cpu.device import CpuDevice
from graphmill_plugins.default_executor import executor_state
from graphmill_plugins.default_executor.state import FrameState, IterationState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.divided

LEFT_OVERS = (
    executor_state.ExecutorState,
    FrameState,
    IterationState,
    IntraProcessRendezvous,
    CancellationManager,
    StepRunner,
)


class Later:
    """A plugin whose op returns its input from another thread."""

    def __init__(self) -> None:
        self.pool = ThreadPool(1, "later")

        @kernel("Downstream>Later", async_=True)
        def later(ctx: Any, x: Any, *, done: Callable[..., None]) -> None:
            del ctx
            self.pool.schedule(lambda: done(x))

        @kernel("Downstream>Heavy", expensive=True)
        def heavy(xp: Any, x: Any) -> Any:
            return xp.negative(x)

        self.kernels = (later, heavy)

    @hookimpl
    def graphmill_register_ops(self, ops: Any) -> None:
        for name in ("Later", "Heavy"):
            x, y = ArgDef("x", dtypes.float32), ArgDef("y", dtypes.float32)
            ops.add(OpDef(f"Downstream>{name}", (x,), (y,)))

    @hookimpl
    def graphmill_register_kernels(self, kernels: Any) -> None:
        for declared in self.kernels:
            kernels.add(declared)


class Points:
    """Counts the cancellation points of a step, and cancels it at one of them.

    Points are before and after each kernel, and where the driving thread is about to wait.
    """

    def __init__(self) -> None:
        self.count = 0
        self.cancel_at = -1
        self.in_thread = False
        self.manager: CancellationManager | None = None
        self.threads: list[threading.Thread] = []

    def begin(self, cancel_at: int = -1) -> None:
        self.count = 0
        self.cancel_at = cancel_at
        self.manager = None

    def reach(self) -> None:
        number, self.count = self.count, self.count + 1  # a race with the pool only shifts points
        if number == self.cancel_at and self.manager is not None:
            if not self.in_thread:
                self.cancel(number)
                return
            thread = threading.Thread(target=self.cancel, args=(number,))
            self.threads.append(thread)
            thread.start()
            if number % 2:
                thread.join()  # else it may come while the step goes on, or after it

    def cancel(self, number: int) -> None:
        assert self.manager is not None
        self.manager.start_cancel(errors.CancelledError(f"at point {number}"))

    def end(self) -> None:
        for thread in self.threads:
            thread.join()
        self.threads.clear()


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> Points:
    made = Points()

    class Watched(CancellationManager):
        def __init__(self, parent: CancellationManager | None = None) -> None:
            super().__init__(parent)
            made.manager = self

    def compute_of(device: CpuDevice, kernel: Any) -> Callable[..., Any]:
        del device

        def compute(*inputs: Any, **keywords: Any) -> Any:
            made.reach()
            result = kernel_compute(*inputs, **keywords)
            made.reach()
            return result

        kernel_compute = kernel.compute
        return compute

    begin = StepRunner.__init__

    def begin_watched(runner: StepRunner, *args: Any) -> None:
        begin(runner, *args)
        runner.watches.append(made.reach)

    monkeypatch.setattr(step_with_options, "CancellationManager", Watched)
    monkeypatch.setattr(CpuDevice, "compute_of", compute_of)
    monkeypatch.setattr(StepRunner, "__init__", begin_watched)
    monkeypatch.setattr(executor_state, "WORTH_A_THREAD_NS", 0)
    return made


@pytest.fixture
def plugin() -> Iterator[Later]:
    made = Later()
    yield made
    made.pool.close()


def build(host: graphmill.Host) -> graphmill.Graph:
    graph = graphmill.Graph(ops=host.ops)

    def op(name: str, x: Any) -> Any:
        return graph.outputs_of(graph.create_op(f"Downstream>{name}", [x]))[0]

    with graph.as_default():
        x = graph.placeholder("float32", (), "x")
        queue = ops.data_flow.fifo_queue_v2(component_types=["float32"], name="queue")

        def body(i: Any, total: Any) -> tuple[Any, Any]:
            added = graphmill.cond(i > 1.0, lambda: op("Later", total), lambda: -total)
            return i + 1.0, added + x

        _, total = graphmill.while_loop(lambda i, _: i < 2.5, body, [0.0, x])
        with graph.device("/device:CPU:1"):
            there = op("Heavy", total) + op("Heavy", x * 2.0)
        waited = ops.data_flow.queue_dequeue_v2(queue, component_types=["float32"])[0]
        with graph.control_dependencies([there]):
            put = ops.data_flow.queue_enqueue_v2(queue, [graph.constant(1.0)])
        with graph.control_dependencies([put]):
            ops.array.identity(there + waited, name="y")
    return graph


def expected(x: float) -> float:
    total = x
    for i in range(3):
        total = (total if i > 1 else -total) + x
    return -total - 2 * x + 1


def config(executor_type: str) -> Any:
    made = proto.ConfigProto(
        device_count={"CPU": 2}, use_per_session_threads=True, inter_op_parallelism_threads=2
    )
    made.experimental.executor_type = executor_type
    made.graph_options.optimizer_options.global_jit_level = -1  # the executor itself
    return made


def left_over(pools: list[ThreadPool | None]) -> Counter[str]:
    """Return how many objects of steps there are, by their types."""
    for pool in pools:
        let_go(pool)
    gc.collect()
    return Counter(
        type(item).__name__ for item in gc.get_objects() if issubclass(type(item), LEFT_OVERS)
    )


def let_go(pool: ThreadPool | None) -> None:
    """Return when no pool thread references its last task, which may end after its step."""
    if pool is not None and pool.num_started:
        all_are_back = threading.Barrier(pool.num_started + 1)
        for _ in range(pool.num_started):
            pool.schedule(all_are_back.wait)
        all_are_back.wait(TIMEOUT)


@pytest.mark.parametrize("in_thread", [False, True], ids=["by the step", "by another thread"])
@pytest.mark.parametrize("executor_type", ["DEFAULT", "INLINE"])
def test_e13_a_step_may_be_cancelled_at_any_point(
    points: Points, plugin: Later, executor_type: str, in_thread: bool
) -> None:
    host = graphmill.Host(plugins=[plugin])
    points.in_thread = in_thread
    plugin.pool.schedule(lambda: None)  # its thread is there from now on
    settings = config(executor_type)
    with (
        no_leaked_threads(),
        graphmill.Session(graph=build(host), host=host, config=settings) as session,
    ):
        pools = [plugin.pool, session._impl.pool]

        def run() -> float:
            # A timeout that is never reached gives the step a manager of its own.
            return float(session.run("y:0", {"x:0": 3.0}, options={"timeout_in_ms": 60_000}))

        assert run() == expected(3)
        points.begin()
        assert run() == expected(3)
        num_points = points.count
        assert num_points > 60
        before = left_over(pools)
        failures: list[str] = []
        for point in range(num_points):
            points.begin(cancel_at=point)
            try:
                assert run() == expected(3)  # it was cancelled when nothing was left to be done
            except errors.CancelledError as error:
                failures.append(f"{point}: {error}")
            points.end()
            points.begin()
            assert run() == expected(3), f"after a cancellation at point {point}"
        # At the last points nothing is left to be done; every second time nobody waits.
        assert len(failures) > (num_points // 2 - 10 if in_thread else num_points - 10)
        assert all(f"at point {line.partition(':')[0]}" in line for line in failures)
        assert left_over(pools) <= before
