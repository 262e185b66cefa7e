"""`ClusterKernel`: a cluster as a kernel, with its tiers.

A cluster starts as straight-line code. For each signature of its inputs it is compiled in the
background and swapped over once that is done. If the compiled form turns out slower than the
straight-line code, or cannot be made, the latter stays, and a record says why.
"""

from __future__ import annotations

import threading
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

from graphmill.lowering.kernel_factory import KernelFactory
from graphmill.runtime.kernel import kernel
from graphmill_plugins.jit.records import ClusterRecord, SignatureRecord
from graphmill_plugins.jit.routine import Routines
from graphmill_plugins.jit.signature import Inputs
from graphmill_plugins.jit.straight_line import StraightLine

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from graphmill.runtime.kernel import OpKernel, OpKernelConstruction
    from graphmill.runtime.op_kernel_context import OpKernelContext
    from graphmill_plugins.jit.cluster_op import ClusterAttr
    from graphmill_plugins.jit.compiler import CompiledCluster

_MOST_SIGNATURES: Final = 16  # that are compiled; a storm of more is interpreted
_TRIALS: Final = 8  # calls after which the faster of two tiers is kept
_MOST_ATTEMPTS: Final = 4  # to compile one signature, each with more inputs known


class _Entry:
    """One signature: its tier and what was measured."""

    __slots__ = ("compiled", "compiled_ns", "num_trials", "record", "straight_ns")

    def __init__(self, record: SignatureRecord) -> None:
        self.record = record
        self.compiled: CompiledCluster | None = None
        self.straight_ns = self.compiled_ns = 1 << 62
        self.num_trials = 0


@kernel("_Cluster", stateful=True)
class ClusterKernel:
    """Run a cluster in the best tier that there is for its inputs.

    Threads: `_lock` guards the table of signatures for writing; a call whose signature is known
    takes no lock.
    """

    def __init__(self, construction: OpKernelConstruction) -> None:
        attr: ClusterAttr = construction.attrs["f"]
        functions = construction.functions
        host, device = functions.host, construction.device
        if attr.body is None or device is None:
            raise TypeError("a cluster needs its body and a device")
        self._functions = functions
        self._background = host.background
        self._is_eager = attr.mode == "eager"
        self._routines = Routines(attr.body, host)
        factory = KernelFactory(host, device, functions, op_segment=True)
        self._straight = StraightLine(self._routines, factory.create, device.name)
        self._inputs = Inputs(self._routines.main)
        self._sources: list[OpKernel] = [factory.create(node) for node in self._inputs.nodes]
        self._lock = threading.Lock()
        self._entries: dict[Hashable, _Entry] = {}
        names = tuple(node.name for node in self._routines.main.nodes)
        self.record = ClusterRecord(attr.name, names, self._straight.source)
        functions.records.setdefault("jit", []).append(self.record)

    def __call__(self, ctx: OpKernelContext, inputs: list[Any]) -> list[Any]:
        """Return the outputs.

        Raises:
            OpError: a node failed; names it.
        """
        values = inputs
        if self._sources:
            values = [*inputs, *(self._handle(source, ctx) for source in self._sources)]
        key = self._inputs.key(values)
        entry = self._entries.get(key)
        if entry is None:
            entry = self._enter(key, values)
        compiled = entry.compiled
        if compiled is None:
            return self._interpret(ctx, inputs, entry)
        began = perf_counter_ns()
        try:
            results = compiled(values)
        except _compiler().CheckFailedError:
            entry.record.num_checks_failed += 1
            return self._interpret(ctx, inputs, entry)
        if entry.num_trials < _TRIALS:
            self._judge(entry, perf_counter_ns() - began)
        return list(results)

    @staticmethod
    def _handle(source: OpKernel, ctx: OpKernelContext) -> Any:
        return source.compute(type(ctx)(ctx.args, source))

    def _interpret(self, ctx: OpKernelContext, inputs: Sequence[Any], entry: _Entry) -> list[Any]:
        began = perf_counter_ns()
        try:
            results = self._straight.call(ctx.args, *inputs)
        except Exception as error:
            status = self._straight.error_of(error)
            if status is error:
                raise
            raise status from error
        entry.straight_ns = min(entry.straight_ns, perf_counter_ns() - began)
        return list(results)

    def _judge(self, entry: _Entry, nanoseconds: int) -> None:
        """Keep the faster tier, once the compiled one was called often enough."""
        entry.compiled_ns = min(entry.compiled_ns, nanoseconds)
        entry.num_trials += 1
        if entry.num_trials == _TRIALS:
            record = entry.record
            record.straight_ns, record.compiled_ns = entry.straight_ns, entry.compiled_ns
            if not self._is_eager and entry.compiled_ns > entry.straight_ns:
                entry.compiled = None
                record.tier = "straight-line"
                record.reason = (
                    f"compiled it takes {entry.compiled_ns / 1000:.1f} µs, "
                    f"interpreted {entry.straight_ns / 1000:.1f} µs"
                )

    def _enter(self, key: Hashable, values: list[Any]) -> _Entry:
        """Note a new signature, and have it compiled."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                return entry
            entry = _Entry(SignatureRecord(str(key)))
            if len(self._entries) < _MOST_SIGNATURES * 4:
                self._entries[key] = entry
            compiled = sum(1 for known in self._entries.values() if known.record.is_wanted)
        if key is None:
            entry.record.reason = "a variable has no value yet, or a handle is of something else"
        elif compiled >= _MOST_SIGNATURES:
            entry.record.reason = f"there are {_MOST_SIGNATURES} compiled signatures already"
        else:
            entry.record.is_wanted = True
            self.record.signatures.append(entry.record)
            if self._is_eager:
                self._compile(entry, values)
            else:
                self._background.submit(self._functions, lambda: self._compile(entry, values))
        return entry

    def _compile(self, entry: _Entry, values: list[Any]) -> None:
        """Compile a signature; what it needs to know of its inputs is found out by trying."""
        if self._functions.closing.is_cancelled:
            return
        compiler = _compiler()
        record = entry.record
        for _ in range(_MOST_ATTEMPTS):
            try:
                made = compiler.compile_cluster(self._routines, self._inputs, values)
            except compiler.NeedsKnown as needs:
                more = compiler.sources_of(self._routines.main, needs, self._inputs)
                if more <= self._inputs.known:
                    record.reason = str(needs)
                    return
                self._inputs.known |= more
            except (compiler.NotTraceable, MemoryError) as error:
                record.reason = str(error)
                return
            else:
                record.tier, record.seconds = "compiled", made.seconds
                entry.compiled = made
                return


def _compiler() -> Any:
    """Return the compiler, which imports JAX, when the first cluster is compiled."""
    from graphmill_plugins.jit import compiler

    return compiler
