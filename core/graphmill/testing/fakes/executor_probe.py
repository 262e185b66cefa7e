"""Count the calls of `done` and the kernels in flight of any executor.

`probed(host, "DEFAULT", ops)` returns a host in which that executor is watched. `ProbeOps` is a
plugin with ops for tests of executors.
"""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any

from graphmill import errors
from graphmill.ops.definition.op_def import ArgDef, AttrDef, OpDef
from graphmill.plugin.markers import hookimpl
from graphmill.runtime.executor import Executor, ExecutorFactory
from graphmill.runtime.kernels.kernel import kernel
from graphmill.testing.fakes.host_variants import with_executor

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.errors import OpError
    from graphmill.graph.graph import Graph
    from graphmill.plugin.host import Host
    from graphmill.runtime.executor import DoneCallback, ExecutorArgs, LocalExecutorParams


class ProbeOps:
    """Ops that wait, fail, finish in random order or count their calls.

    - `Probe>Later(x: T, seed)`: returns `x` asynchronously; the seed determines the order in which
      the pending kernels of a step end.
    - `Probe>Wait(x: T)`: waits until the step is cancelled.
    - `Probe>Fail(x: T)`: raises DataLossError.
    - `Probe>Count(x: T)`: returns `x` and counts the call in `calls`, by node.

    Attributes:
        calls: the number of `Probe>Count` calls, by node.
        waiting: the number of `Probe>Wait` kernels that wait at present.
        has_begun: set when a `Probe>Wait` kernel begins to wait.
    """

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}
        self.waiting = 0
        self.has_begun = threading.Event()
        self._later: dict[int, list[Callable[[], None]]] = {}
        self._random: dict[int, random.Random] = {}
        self.kernels = (self._later_kernel(), self._wait(), self._fail(), self._count())

    @hookimpl
    def graphmill_register_ops(self, ops: Any) -> None:
        """Register the ops."""
        x, y = ArgDef("x", type_attr="T"), ArgDef("y", type_attr="T")
        for name in ("Later", "Wait", "Fail", "Count"):
            attrs = [AttrDef("T", "type")]
            if name == "Later":
                attrs.append(AttrDef("seed", "int", 0))
            stateful = name in ("Wait", "Count")
            ops.add(OpDef(f"Probe>{name}", (x,), (y,), tuple(attrs), is_stateful=stateful))

    @hookimpl
    def graphmill_register_kernels(self, kernels: Any) -> None:
        """Register the kernels."""
        for declared in self.kernels:
            kernels.add(declared)

    def _later_kernel(self) -> Callable[..., Any]:
        @kernel("Probe>Later", async_=True)
        def later(ctx: Any, x: Any, *, seed: int, done: Any) -> None:
            pending = self._later.setdefault(ctx.step_id, [])
            order = self._random.setdefault(ctx.step_id, random.Random(seed))
            pending.append(lambda: done(x))

            def end_one() -> None:
                pending.pop(order.randrange(len(pending)))()

            ctx.args.runner.post(end_one)

        return later

    def _wait(self) -> Callable[..., Any]:
        @kernel("Probe>Wait", async_=True)
        def wait(ctx: Any, x: Any, *, done: Any) -> None:
            del x

            def woken() -> None:
                self.waiting -= 1
                done(error=errors.CancelledError("woken"))

            self.waiting += 1
            token = ctx.cancellation.register(woken)
            self.has_begun.set()
            if token is None:
                woken()

        return wait

    def _fail(self) -> Callable[..., Any]:
        @kernel("Probe>Fail")
        def fail(xp: Any, x: Any) -> Any:
            del xp, x
            raise errors.DataLossError("lost it")

        return fail

    def _count(self) -> Callable[..., Any]:
        @kernel("Probe>Count", stateful=True)
        def count(ctx: Any, x: Any) -> Any:
            self.calls[ctx.node_name] = self.calls.get(ctx.node_name, 0) + 1
            return x

        return count


class _Probe(Executor):
    def __init__(self, inner: Executor, factory: ProbedFactory) -> None:
        self._inner = inner
        self._factory = factory

    def run_async(self, args: ExecutorArgs, done: DoneCallback) -> None:
        calls: list[OpError | None] = []
        self._factory.runs.append(calls)
        thread = threading.get_ident()

        def noted(error: OpError | None) -> None:
            calls.append(error)
            if args.runner.owner != threading.get_ident() and thread != threading.get_ident():
                self._factory.faults.append(
                    "done was called in a thread that does not drive the step"
                )
            if self._factory.still_waiting():
                self._factory.faults.append("done was called while kernels of the step still ran")
            if error is not None and not isinstance(error, errors.OpError):
                self._factory.faults.append(
                    f"done was called with {type(error).__name__}, which is not an OpError"
                )
            if len(calls) == 1:
                done(error)

        self._inner.run_async(args, noted)

    def close(self) -> None:
        self._inner.close()


class ProbedFactory(ExecutorFactory):
    """Creates watched executors.

    Attributes:
        runs: for each run, the argument of each call of `done`.
        faults: descriptions of violations.
    """

    def __init__(self, factory: ExecutorFactory, still_waiting: Callable[[], bool]) -> None:
        self._factory = factory
        self.still_waiting = still_waiting
        self.needs_passes = factory.needs_passes
        self.forbids_passes = factory.forbids_passes
        self.observes_kernels = factory.observes_kernels
        self.runs: list[list[OpError | None]] = []
        self.faults: list[str] = []

    def new_executor(self, params: LocalExecutorParams, graph: Graph) -> Executor:
        """Return a watched executor of `graph`."""
        return _Probe(self._factory.new_executor(params, graph), self)

    def problems(self) -> list[str]:
        """Return the violations seen so far; call it after all steps have ended."""
        wrong = [len(calls) for calls in self.runs if len(calls) != 1]
        return [*self.faults, *(f"done was called {count} times in one run" for count in wrong)]


def probed(host: Host, executor_type: str, ops: ProbeOps) -> tuple[Host, ProbedFactory]:
    """Return a host with watched executors of a type, and their factory."""
    factory = ProbedFactory(host.executors.get(executor_type), lambda: ops.waiting > 0)
    return with_executor(host, executor_type, factory), factory
