"""`LoopTiers`: compile a long-running loop, and run its iterations compiled."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.spi import ClusterRecord
from graphmill_plugins.jit.ir.invariant_nodes import is_source
from graphmill_plugins.jit.ir.lowering_choices import CompiledForms
from graphmill_plugins.jit.ir.signature import Inputs
from graphmill_plugins.jit.ir.source_handles import SourceHandles
from graphmill_plugins.jit.tiers.loop_body import LoopBody, loop_body
from graphmill_plugins.jit.tiers.program_builder import ProgramBuilder, compiler_module
from graphmill_plugins.jit.tiers.signature_compiler import SignatureCompiler
from graphmill_plugins.jit.tiers.signature_records import signature_text
from graphmill_plugins.jit.tiers.tier_machine import TierMachine, TierRules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.spi import ExecutorArgs, Node, OpKernel
    from graphmill_plugins.jit.tiers.on_stack_replacement import Carried, LoopReplacements
    from graphmill_plugins.jit.tiers.signature_state import Signature

_FIRST_LIMIT: Final = 64  # iterations of the first call of a program
_GROWTH: Final = 8
_SHORT_NS: Final = 5_000_000  # the next call after a shorter one runs more iterations
_LONG_NS: Final = 50_000_000  # the next call after a longer one runs fewer
_MAX_LIMIT: Final = 1 << 27


class LoopTiers:
    """The compiled form of one loop, by the signature of its loop variables.

    Threads: any number may call; the number of iterations of a call is updated without a lock.

    Args:
        loop: a functional loop.
        cluster: describes the cluster that contains it.
    """

    def __init__(self, loop: Node, cluster: LoopReplacements) -> None:
        self._body = body = loop_body(loop, cluster.bodies)
        sources = _sources_of(body, cluster.kernels)
        self._sources = SourceHandles(sources.values(), cluster.device)
        self._inputs = inputs = Inputs(body.bodies.main, sources)
        self._limit = _FIRST_LIMIT
        attr, device = cluster.attr, cluster.device
        record = ClusterRecord(loop.name, tuple(node.name for node in body.nodes))
        record.forms = CompiledForms(body.bodies)
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
            args: those of the step.
            carried: the values of the loop variables.
            count: the number of iterations so far.
            straight_ns: how long an iteration takes as straight-line code; 0 if it is not known.

        Returns:
            The values, the iterations so far, and the iterations until which straight-line code
            must continue.
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


def _next_limit(limit: int, nanoseconds: int) -> int:
    """Return the number of iterations of the next call."""
    if nanoseconds < _SHORT_NS:
        return min(limit * _GROWTH, _MAX_LIMIT)
    return max(limit // 4, 1) if nanoseconds > _LONG_NS else limit
