"""`ClusterKernel`: a cluster as a kernel, with its tiers.

A cluster starts as straight-line code. For each signature of its inputs it is compiled in the
background and swapped over once that is done. If the compiled form turns out slower than the
straight-line code, or cannot be made, the latter stays, and a record says why.
"""

from __future__ import annotations

from time import perf_counter, perf_counter_ns
from typing import TYPE_CHECKING, Any, Final, cast

from graphmill.explain.compilation import (
    COMPILED,
    ClusterRecord,
    CompileRecord,
    SignatureRecord,
)
from graphmill.runtime.kernel import kernel
from graphmill_plugins.jit.records import signature_text
from graphmill_plugins.jit.regions.eligibility import SOURCES
from graphmill_plugins.jit.routine import Routines
from graphmill_plugins.jit.routine_kernels import RoutineKernels
from graphmill_plugins.jit.signature import Inputs
from graphmill_plugins.jit.signature_table import EVICTED, MOST_COMPILED, Entry, SignatureTable
from graphmill_plugins.jit.straight.straight_line import StraightLine
from graphmill_plugins.jit.tracing.traced_ops import FUNCTION_ATTRS

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from graphmill.runtime.kernel import OpKernelConstruction
    from graphmill.runtime.op_kernel_context import OpKernelContext
    from graphmill_plugins.jit.cluster_op import ClusterAttr
    from graphmill_plugins.jit.errors import NeedsKnown
    from graphmill_plugins.jit.programs.compiler import CompiledCluster

_TRIALS: Final = 8  # calls after which the faster of two tiers is kept
_VARIED_TRIALS: Final = 16  # the same where what is computed depends on the values
_CHOOSING: Final = frozenset(FUNCTION_ATTRS)  # What they call depends on values, or may.
_FULL: Final = f"there are {MOST_COMPILED} compiled signatures already"
_PENDING: Final = "it waits to be compiled, or has come once only"
_MOST_RECORDS: Final = 64
_MOST_ATTEMPTS: Final = 4  # to compile one signature, each with more inputs known


@kernel("_Cluster", stateful=True)
class ClusterKernel:
    """Run a cluster in the best tier that there is for its inputs.

    Threads: the table's lock guards what is changed; a call whose signature is known takes none.
    """

    def __init__(self, construction: OpKernelConstruction) -> None:
        attr: ClusterAttr = construction.attrs["f"]
        functions = construction.functions
        host, device = functions.host, construction.device
        if attr.body is None or device is None:
            raise TypeError("a cluster needs its body and a device")
        self._functions = functions
        self._background = host.background
        self._mode, self._calls = attr.mode, attr.calls
        self._cache_options = attr.cache_dir, attr.cache_bytes
        self._device = device
        self._routines = Routines(attr.body, host, functions.effects, device=device)
        kernels = RoutineKernels(device, functions, attr.owner)
        to_device = None if device.is_host_memory else device.to_device
        self._straight = StraightLine(self._routines, kernels.create, device.name, to_device)
        self._varies = any(node.op in _CHOOSING for node in self._routines.main.nodes)
        sources = {
            node: made
            for node, made in self._straight.kernels.items()
            if node.op in SOURCES or made.variable is not None
        }
        self._inputs = Inputs(self._routines.main, sources)
        self._sources = list(sources.values())
        self._held: tuple[int, list[Any]] | None = None
        self._table = SignatureTable()
        self.record = attr.record or ClusterRecord(construction.node_name, ())
        self.record.source = self._straight.source

    def __call__(self, ctx: OpKernelContext, inputs: list[Any]) -> list[Any]:
        """Return the outputs.

        Raises:
            OpError: a node failed; names it.
        """
        values = inputs
        if self._sources:
            values = [*inputs, *self._handles(ctx)]
        key = self._inputs.key(values)
        entry = self._table.get(key)
        if entry is None:
            entry = self._enter(key, values)
        compiled = entry.compiled
        if compiled is None or (entry.waits and not self._tries_again(entry)):
            if entry.calls_left:
                self._count_down(entry, values)
            elif entry.is_refused and self._table.claim(entry):
                self._begin(entry, values)
            return self._interpret(ctx, inputs, entry)
        began = perf_counter_ns()
        try:
            results = compiled(values, ctx.args)
        except _compiler().CheckFailedError as failed:
            entry.note_failed()
            if failed.args:
                entry.give_up(f"the compiled form failed: {failed}")
            return self._interpret(ctx, inputs, entry)
        entry.record.num_compiled += 1
        if not entry.is_judged:
            self._judge(entry, perf_counter_ns() - began)
        return list(results)

    def _handles(self, ctx: OpKernelContext) -> list[Any]:
        """Return the variables that its nodes name or keep; looked up again if any was removed."""
        generation = ctx.resources.generation
        held = self._held
        if held is None or held[0] != generation:
            found = [
                source.compute(type(ctx)(ctx.args, source))
                if source.variable is None
                else source.variable
                for source in self._sources
            ]
            held = self._held = generation, found
        return held[1]

    def _interpret(self, ctx: OpKernelContext, inputs: Sequence[Any], entry: Entry) -> list[Any]:
        began = perf_counter_ns()
        try:
            results = self._straight.call(ctx.args, *inputs)
        except Exception as error:
            status = self._straight.error_of(error)
            if status is error:
                raise
            raise status from error
        if not entry.is_judged:
            entry.straight_times.add(perf_counter_ns() - began)
        entry.record.num_straight += 1
        return list(results)

    def _judge(self, entry: Entry, nanoseconds: int) -> None:
        """Keep the faster tier, once the compiled one was called often enough.

        A thread that compiles slows programs down more than generated code, which seldom gives up
        Python's lock; and what is compiled already pays for values that go to and from clusters
        that are not yet. So a form that loses meanwhile is tried again when all is compiled.
        """
        times = entry.compiled_times
        times.add(nanoseconds)
        if times.count < (_VARIED_TRIALS if self._varies else _TRIALS):
            return
        straight = entry.straight_times.typical(varies=self._varies)
        compiled = times.typical(varies=self._varies)
        record = entry.record
        record.straight_ns, record.compiled_ns = straight, compiled
        loses = self._mode != "eager" and compiled > straight
        if loses and not self._background.is_idle:
            entry.waits = True
            return
        if loses:
            entry.lose(
                f"compiled it takes {compiled / 1000:.1f} µs, interpreted {straight / 1000:.1f} µs"
            )
        else:
            entry.is_judged = True

    def _tries_again(self, entry: Entry) -> bool:
        """Return whether a compiled form that lost, or failed, is to be tried again by now."""
        if entry.skips:
            entry.skips -= 1
        elif self._background.is_idle:
            entry.compete()
        return not entry.waits

    def _enter(self, key: Hashable, values: list[Any]) -> Entry:
        """Note a new signature, and have it compiled."""
        table = self._table
        with table.lock:
            entry = table.get(key)
            if entry is not None:
                return entry
            reason = self._why_not(key)
            entry = self._new_entry(self._record_of(reason, values), key)
            entry.is_refused = reason == _FULL
            table.add(entry)
        if not reason:
            if self._mode == "eager":
                return self._compile(entry, values)
            entry.calls_left = self._calls
        return entry

    def _begin(self, entry: Entry, values: list[Any]) -> None:
        """Compile a signature that has got the place of another one."""
        entry.record = self._record_of("", values)
        entry.calls_left = 1
        self._count_down(entry, values)

    def _new_entry(self, record: SignatureRecord, key: Hashable) -> Entry:
        entry = Entry(record, key)
        # A device that computes later tells by no clock of ours which tier is the faster one.
        entry.is_judged = not self._device.is_host_memory
        return entry

    def _count_down(self, entry: Entry, values: list[Any]) -> None:
        """Have a signature compiled once it has come often enough."""
        with self._table.lock:
            if not entry.calls_left:
                return  # another thread was first
            entry.calls_left -= 1
            if entry.calls_left:
                return
        if not self._background.submit(self._functions, lambda: self._compile(entry, values)):
            entry.record.reason = "too much waited to be compiled when it came"

    def _why_not(self, key: Hashable) -> str:
        """Return why a new signature is not to be compiled; empty if it is. Under the lock."""
        if self._mode == "straight-line":
            return "the session is deterministic: nothing is compiled"
        if key is None:
            return "a variable has no value yet, or a handle is of something else"
        return _FULL if self._table.is_full() else ""

    def _record_of(self, reason: str, values: list[Any]) -> SignatureRecord:
        """Return a new record; signatures that are not compiled share one for each reason."""
        records = self.record.signatures
        if not reason:
            text = signature_text(self._inputs, values)
            record = SignatureRecord(text, is_wanted=True, reason=_PENDING)
        else:
            for record in records:
                if record.reason == reason and not record.is_wanted:
                    return record
            record = SignatureRecord("others" if records else "all", reason=reason)
        if len(records) >= _MOST_RECORDS:  # of long ago: those that lost their places
            records[:] = [one for one in records if one.reason != EVICTED]
        records.append(record)
        return record

    def _compile(self, entry: Entry, values: list[Any]) -> Entry:
        """Compile a signature, or note why it cannot be; return the entry that serves `values`."""
        if self._functions.closing.is_cancelled or entry.compiled is not None:
            return entry
        record = entry.record
        try:
            made = self._attempts(record, values)
        except BaseException as error:
            record.reason = f"the compiler failed: {type(error).__name__}: {error}"
            raise
        return entry if made is None else self._swap(entry, made)

    def _swap(self, entry: Entry, made: CompiledCluster) -> Entry:
        """Let the compiled form serve the inputs that it is for, and return their entry.

        These are fewer than the first one's where values had to be known. Entries that tell inputs
        apart by less than that are never asked for again.
        """
        if made.key == entry.key:
            entry.compiled = made
            return entry
        known = self._inputs.known_of(made.key)
        known_of = self._inputs.known_of
        new = self._new_entry(entry.record, made.key)
        served = self._table.replace(new, lambda key: known_of(key) < known)
        served.compiled = made
        return served

    def _attempts(self, record: SignatureRecord, values: list[Any]) -> CompiledCluster | None:
        """Compile a signature; what it needs to know of its inputs is found out by trying."""
        try:
            compiler = _compiler()
        except ImportError as error:
            record.reason = f"JAX cannot be imported: {error}"
            return None
        folder, max_bytes = self._cache_options
        memory = compiler.memory_of(self._device)
        cache = compiler.ProgramCache(folder, max_bytes, memory.jax_device) if folder else None
        cause = "a new signature"
        for _ in range(_MOST_ATTEMPTS):
            began = perf_counter()
            try:
                made = compiler.compile_cluster(self._routines, self._inputs, values, cache, memory)
            except (compiler.NotTraceable, MemoryError) as error:
                record.reason = str(error)
                took = perf_counter() - began
                record.compiles.append(CompileRecord(took, "refused", cause, record.reason))
                is_learnt = isinstance(error, compiler.NeedsKnown) and self._learn(
                    cast("NeedsKnown", error)
                )
                if not is_learnt:
                    return None
                cause = f"again, with more inputs known: {record.reason}"
            else:
                outcome = "loaded" if made.is_loaded else COMPILED
                record.compiles.append(CompileRecord(made.seconds, outcome, cause, "", made.cache))
                record.tier, record.seconds, record.reason = COMPILED, made.seconds, ""
                record.signature = signature_text(self._inputs, values)  # more may be known
                return cast("CompiledCluster", made)
        return None

    def _learn(self, needs: NeedsKnown) -> bool:
        """Take the inputs whose values are needed as known; return whether any is new."""
        more = _compiler().sources_of(self._routines.main, needs, self._inputs)
        is_new = not more <= self._inputs.known
        self._inputs.known |= more
        return is_new


def _compiler() -> Any:
    """Return the compiler, which imports JAX, when the first cluster is compiled."""
    from graphmill_plugins.jit.programs import compiler

    return compiler
