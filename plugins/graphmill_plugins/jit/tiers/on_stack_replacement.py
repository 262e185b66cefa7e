"""On-stack replacement: move a running loop from straight-line code to its compiled form.

Straight-line code calls a `LoopReplacement` at the end of some iterations. There only the values of
the loop variables are alive, so moving is passing them on. The compiled form is a program that runs
a number of iterations and returns their values (`loop_body`). It is called again and again, each
time for some hundredths of a second, so that a step can be cancelled between two calls.

If a check fails, the call has changed nothing: straight-line code continues at the iteration where
the call began, and raises the error if there is one. A `TierMachine` decides when the loop is
compiled, and whether its compiled form is the faster one.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

from graphmill.spi.process import fork_safe_lock
from graphmill_plugins._jax import JAX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphmill.spi import ClusterRecord, Device, ExecutorArgs, Node, OpKernel
    from graphmill.spi.compilers import FunctionLibraryRuntime
    from graphmill_plugins.jit.ir.cluster_attr import ClusterAttr
    from graphmill_plugins.jit.ir.errors import WrongOutputsError
    from graphmill_plugins.jit.ir.scheduled_body import ScheduledBodies
    from graphmill_plugins.jit.tiers.loop_tiers import LoopTiers

    Carried = tuple[Any, ...]

HOT_NS: Final = 50_000_000  # time in a loop, over all steps, after which it is compiled
IMPORT_NS: Final = 500_000_000  # the same while JAX is not imported, which takes that long itself
_ENTER_NS: Final = 50_000  # time in this run of the loop after which its program is called
_POLL_NS: Final = 2_000_000  # time between two calls by straight-line code, about


class LoopReplacements:
    """Creates the `LoopReplacement` of each loop in a cluster.

    Args:
        attr: the cluster.
        bodies: its bodies.
        functions: the functions of the session.
        device: the cluster's device.
        record: the cluster's record, to which those of compiled loops are added.
    """

    def __init__(
        self,
        attr: ClusterAttr,
        bodies: ScheduledBodies,
        functions: FunctionLibraryRuntime,
        device: Device,
        record: ClusterRecord,
    ) -> None:
        self.bodies = bodies
        self.functions = functions
        self.device = device
        self.record = record
        self.attr = attr
        self.kernels: Mapping[Node, OpKernel] = {}
        self.fail: Callable[[WrongOutputsError], None]

    def __call__(self, loop: Node) -> LoopReplacement:
        """Return the replacement of a loop, which generated code calls."""
        return LoopReplacement(loop, self)


class _LoopRun:
    """One run of a loop.

    Attributes:
        began: when straight-line code called first, in nanoseconds.
        since, count: when it called last, and the iterations until then.
        straight_until: the iterations until which it stays straight-line code, as a check failed.
    """

    __slots__ = ("began", "count", "since", "straight_until")

    def __init__(self, count: int) -> None:
        self.began = self.since = perf_counter_ns()
        self.count = count
        self.straight_until = 0


class LoopReplacement:
    """Runs iterations of one loop compiled, as soon as that is possible and worthwhile.

    Threads: any number may run the loop at once. The time spent is a statistic, added to without a
    lock; `_lock` ensures that the tiers are created once.

    Args:
        loop: a functional loop.
        cluster: describes the cluster that contains it.
    """

    def __init__(self, loop: Node, cluster: LoopReplacements) -> None:
        self._loop = loop
        self._cluster = cluster
        self._spent_ns = 0
        self._tiers: LoopTiers | None = None
        self._lock = fork_safe_lock()

    def __call__(
        self, args: ExecutorArgs, carried: Carried, count: int, run: _LoopRun | None
    ) -> tuple[Carried, int, int, _LoopRun]:
        """Run none or more iterations of the loop.

        Args:
            args: those of the step.
            carried: the values of the loop variables after `count` iterations.
            count: the number of iterations so far.
            run: the state that the previous call in this run of the loop returned; None for the
                first call.

        Returns:
            The values, the number of iterations so far, the number of iterations at which to call
            again, and the state of this run.
        """
        run = run or _LoopRun(count)
        now = perf_counter_ns()
        elapsed, iterations = now - run.since, count - run.count
        self._spent_ns += elapsed
        is_due = now - run.began >= _ENTER_NS and self._spent_ns >= _hot_ns()
        if is_due and count >= run.straight_until:
            tiers = self._tiers or self._create()
            straight_ns = elapsed // (iterations or 1)
            carried, count, run.straight_until = tiers.advance(args, carried, count, straight_ns)
            now = perf_counter_ns()
        run.since, run.count = now, count
        more = min(_POLL_NS * iterations // (elapsed or 1), 2 * iterations) if iterations else count
        return carried, count, count + (more or 1), run

    def _create(self) -> LoopTiers:
        # Imported here: most loops end before they are worth it.
        from graphmill_plugins.jit.tiers.loop_tiers import LoopTiers

        with self._lock:
            if self._tiers is None:
                self._tiers = LoopTiers(self._loop, self._cluster)
            return self._tiers


def _hot_ns() -> int:
    return HOT_NS if JAX.is_used else IMPORT_NS
