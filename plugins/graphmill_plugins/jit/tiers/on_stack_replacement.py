"""On-stack replacement: move a running loop from straight-line code to its compiled form.

Straight-line code calls a `LoopReplacement` at the end of some iterations. There only the values of
the loop variables are alive, so moving is passing them on. The compiled form is a program that runs
a number of iterations and returns their values (`loop_body`). It is called again and again, each
time for some hundredths of a second, so that a step can be cancelled between two calls.

If a check fails, the call has changed nothing: straight-line code goes on at the iteration where
the call began, and raises the error if there is one. A `TierMachine` decides when the loop is
compiled, and whether its compiled form is the faster one.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.spi import ClusterRecord
from graphmill.spi.process import fork_safe_lock
from graphmill_plugins._jax import JAX
from graphmill_plugins.jit.ir.invariant_nodes import is_source
from graphmill_plugins.jit.ir.signature import Inputs
from graphmill_plugins.jit.ir.source_handles import SourceHandles
from graphmill_plugins.jit.tiers.loop_body import LoopBody, loop_body
from graphmill_plugins.jit.tiers.program_builder import ProgramBuilder, compiler_module
from graphmill_plugins.jit.tiers.signature_compiler import SignatureCompiler
from graphmill_plugins.jit.tiers.signature_records import signature_text
from graphmill_plugins.jit.tiers.tier_machine import TierMachine, TierRules

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphmill.spi import Device, ExecutorArgs, Node, OpKernel
    from graphmill.spi.compilers import FunctionLibraryRuntime
    from graphmill_plugins.jit.ir.cluster_attr import ClusterAttr
    from graphmill_plugins.jit.ir.errors import WrongOutputsError
    from graphmill_plugins.jit.ir.scheduled_body import ScheduledBodies
    from graphmill_plugins.jit.tiers.signature_state import Signature

    Carried = tuple[Any, ...]

HOT_NS: Final = 50_000_000  # time in a loop, over all steps, after which it is compiled
IMPORT_NS: Final = 500_000_000  # the same while JAX is not imported, which takes that long itself
_ENTER_NS: Final = 50_000  # time in this run of the loop after which its program is called
_POLL_NS: Final = 2_000_000  # time between two calls by straight-line code, about
_FIRST_LIMIT: Final = 64  # iterations of the first call of a program
_GROWTH: Final = 8
_SHORT_NS: Final = 5_000_000  # the next call after a shorter one runs more iterations
_LONG_NS: Final = 50_000_000  # the next call after a longer one runs fewer
_MAX_LIMIT: Final = 1 << 27


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
    """Runs iterations of one loop compiled, as soon as that is possible and worth it.

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
        self._tiers: _LoopTiers | None = None
        self._lock = fork_safe_lock()

    def __call__(
        self, args: ExecutorArgs, carried: Carried, count: int, run: _LoopRun | None
    ) -> tuple[Carried, int, int, _LoopRun]:
        """Run none or more iterations of the loop.

        Args:
            args: of the step.
            carried: the values of the loop variables after `count` iterations.
            count: the number of iterations so far.
            run: what the call before returned in this run of the loop; None for the first one.

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

    def _create(self) -> _LoopTiers:
        with self._lock:
            if self._tiers is None:
                self._tiers = _LoopTiers(self._loop, self._cluster)
            return self._tiers


class _LoopTiers:
    """The compiled form of one loop, by the signature of its loop variables."""

    def __init__(self, loop: Node, cluster: LoopReplacements) -> None:
        self._body = body = loop_body(loop, cluster.bodies)
        sources = _sources_of(body, cluster.kernels)
        self._sources = SourceHandles(sources.values(), cluster.device)
        self._inputs = inputs = Inputs(body.bodies.main, sources)
        self._limit = _FIRST_LIMIT
        attr, device = cluster.attr, cluster.device
        record = ClusterRecord(loop.name, tuple(node.name for node in body.nodes))
        cluster.record.loops.append(record)
        self._machine = TierMachine(
            record,
            TierRules(calls=1, is_compared=device.is_host_memory),
            cluster.functions.host.background,
            lambda values: signature_text(inputs, values),
        )
        builder = ProgramBuilder(
            *(loop.name, body.bodies, inputs, device, attr.cache_dir, attr.cache_bytes),
            is_loop=True,
        )
        self._compiler = SignatureCompiler(
            *(self._machine, builder, inputs, cluster.functions),
            is_compiled=True,
            fail=cluster.fail,
        )

    def advance(
        self, args: ExecutorArgs, carried: Carried, count: int, straight_ns: int
    ) -> tuple[Carried, int, int]:
        """Run iterations if the loop is compiled.

        Args:
            args: of the step.
            carried: the values of the loop variables.
            count: the number of iterations so far.
            straight_ns: how long an iteration takes as straight-line code; 0 if it is not known.

        Returns:
            The values, the iterations so far, and the iterations until which straight-line code
            must go on.
        """
        values = [*carried, np.int32(self._limit), *self._sources.of(args)]
        key = self._inputs.key(values)
        signature = self._machine.find(key) or self._compiler.enter(key, values)
        if straight_ns and signature.is_measured:
            signature.straight_times.add(straight_ns)
        signature.counts.num_straight += 1
        if signature.program is None and signature.counts_calls:
            self._compiler.count_call(signature, values)
        if signature.program is None:
            return carried, count, count
        return self._run(signature, args, values, count)

    def _run(
        self, signature: Signature, args: ExecutorArgs, values: list[Any], count: int
    ) -> tuple[Carried, int, int]:
        """Call the program until the loop ends, a check fails or the step is cancelled."""
        program = signature.program
        num_carried = len(self._body.bodies.main.args) - 1
        straight_until = count
        while program is not None and not args.is_cancelled:
            limit = self._limit
            values[num_carried] = np.int32(limit)
            began = perf_counter_ns()
            try:
                *results, done = program(values, args)
            except compiler_module().CheckFailedError as failed:
                self._compiler.note_failed(signature, program, failed)
                straight_until = count + limit
                break
            took = perf_counter_ns() - began
            for position, value in zip(self._body.results, results, strict=True):
                values[position] = value
            iterations = int(done)
            count += iterations
            signature.counts.num_compiled += 1
            if iterations and signature.is_measured:
                self._machine.call_timed(signature, took // iterations)
            if iterations < limit:
                break
            self._limit = _next_limit(limit, took)
            program = signature.program
        return tuple(values[:num_carried]), count, straight_until


def _sources_of(body: LoopBody, kernels: Mapping[Node, OpKernel]) -> dict[Node, OpKernel]:
    """Return the kernels of nodes in a loop that name a variable, or keep one."""
    return {
        node: kernels[node]
        for node in body.nodes
        if node in kernels and (is_source(node) or kernels[node].variable is not None)
    }


def _hot_ns() -> int:
    return HOT_NS if JAX.is_used else IMPORT_NS


def _next_limit(limit: int, nanoseconds: int) -> int:
    """Return the number of iterations of the next call."""
    if nanoseconds < _SHORT_NS:
        return min(limit * _GROWTH, _MAX_LIMIT)
    return max(limit // 4, 1) if nanoseconds > _LONG_NS else limit
