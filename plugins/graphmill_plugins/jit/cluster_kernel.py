"""`ClusterKernel`: the kernel of a cluster, which runs it in the best available tier.

It calls straight-line code and compiled programs, measures their durations, and compiles
signatures. Its `TierMachine` (`tiers`) decides which tier serves a signature.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import InternalError
from graphmill.spi import ClusterRecord, kernel
from graphmill.spi.executors import is_validation_on
from graphmill.spi.process import track_forks
from graphmill_plugins._jax import INHERITED, JAX
from graphmill_plugins.jit.ir.body_kernels import BodyKernels
from graphmill_plugins.jit.ir.errors import WrongOutputsError
from graphmill_plugins.jit.ir.function_bodies import bodies_of
from graphmill_plugins.jit.ir.invariant_nodes import is_source
from graphmill_plugins.jit.ir.scheduled_body import ScheduledBodies
from graphmill_plugins.jit.ir.signature import Inputs
from graphmill_plugins.jit.straight.straight_line import StraightLine
from graphmill_plugins.jit.tiers.program_builder import ProgramBuilder, Refusal, compiler_module
from graphmill_plugins.jit.tiers.signature_records import signature_text
from graphmill_plugins.jit.tiers.states import Action, Event
from graphmill_plugins.jit.tiers.tier_machine import TierMachine, TierRules

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from graphmill.spi import OpKernelConstruction, OpKernelContext
    from graphmill_plugins.jit.ir.cluster_attr import ClusterAttr
    from graphmill_plugins.jit.tiers.signature_state import Signature

_DETERMINISTIC: Final = "the session is deterministic: nothing is compiled"


@kernel("_Cluster", stateful=True)
class ClusterKernel:
    """Run a cluster in the best tier available for its inputs.

    Threads: a call whose signature is compiled takes no lock; see `TierMachine` for the others.
    """

    def __init__(self, construction: OpKernelConstruction) -> None:
        attr: ClusterAttr = construction.attrs["f"]
        functions = construction.functions
        host, device = functions.host, construction.device
        if attr.body is None or device is None:
            raise TypeError("a cluster needs its body and a device")
        self._functions = functions
        self._background = host.background
        self._fault_warnings = host.fault_warnings
        self._is_compiled = attr.mode != "straight-line"
        called = bodies_of(functions)
        bodies = ScheduledBodies(attr.body, host, functions.effects, device=device, called=called)
        kernels = BodyKernels(device, functions, attr.owner)
        to_device = None if device.is_host_memory else device.to_device
        self._straight = StraightLine(bodies, kernels.create, device.name, to_device)
        sources = {
            node: kernel
            for node, kernel in self._straight.kernels.items()
            if is_source(node) or kernel.variable is not None
        }
        self._inputs = inputs = Inputs(bodies.main, sources)
        self._sources = list(sources.values())
        self._cached_handles: tuple[int, list[Any]] | None = None
        self._builder = ProgramBuilder(
            construction.node_name, bodies, inputs, device, attr.cache_dir, attr.cache_bytes
        )
        record = attr.record or ClusterRecord(construction.node_name, ())
        record.source = self._straight.source
        is_eager = attr.mode == "eager"
        rules = TierRules(
            calls=0 if is_eager else attr.calls,
            varies=any(node.op_def.calls for node in bodies.main.nodes),
            is_compared=device.is_host_memory,
            keeps_slower=is_eager,
        )
        self._machine = TierMachine(
            record, rules, host.background, lambda values: signature_text(inputs, values)
        )
        self._find = self._machine.find
        self._suspects: dict[Signature, Refusal] = {}
        track_forks(self)

    def __call__(self, ctx: OpKernelContext, inputs: list[Any]) -> list[Any]:
        """Return the outputs.

        Raises:
            OpError: a node failed; the error names it.
        """
        values = inputs
        if self._sources:
            values = [*inputs, *self._handles(ctx)]
        key = self._inputs.key(values)
        signature = self._find(key)
        if signature is None:
            signature = self._enter(key, values)
        program = signature.program
        if program is None:
            if signature.counts_calls:
                self._follow(self._machine.count_call(signature, values), signature, values)
                program = signature.program
            if program is None:
                return self._interpret(ctx, inputs, signature)
        is_measured = signature.is_measured
        began = perf_counter_ns() if is_measured else 0
        try:
            results = program(values, ctx.args)
        except compiler_module().CheckFailedError as failed:
            self._note_failed(signature, program, failed)
            return self._interpret(ctx, inputs, signature)
        signature.counts.num_compiled += 1
        if is_measured:
            self._machine.call_timed(signature, perf_counter_ns() - began)
        return list(results)

    def after_fork_in_child(self) -> None:
        """Interpret everything if JAX is unusable in the child; otherwise resubmit compilations."""
        if JAX.is_inherited:
            self._machine.compiler_lost(INHERITED)
        else:
            self._machine.compilations_lost()

    def _handles(self, ctx: OpKernelContext) -> list[Any]:
        """Return the variables of its nodes; look them up again if any was removed."""
        generation = ctx.resources.generation
        cached = self._cached_handles
        if cached is None or cached[0] != generation:
            handles = [
                source.compute(type(ctx)(ctx.args, source))
                if source.variable is None
                else source.variable
                for source in self._sources
            ]
            cached = self._cached_handles = generation, handles
        return cached[1]

    def _interpret(
        self, ctx: OpKernelContext, inputs: Sequence[Any], signature: Signature
    ) -> list[Any]:
        began = perf_counter_ns()
        try:
            results = self._straight.call(ctx.args, *inputs)
        except Exception as error:
            status = self._straight.error_of(error)
            if status is error:
                raise
            raise status from error
        if signature.is_measured:
            signature.straight_times.add(perf_counter_ns() - began)
        signature.counts.num_straight += 1
        if self._suspects:
            self._warn_of_fault(signature)
        return list(results)

    def _warn_of_fault(self, signature: Signature) -> None:
        """Warn that code raised an error while traced, if it computes the same inputs otherwise."""
        refusal = self._suspects.pop(signature, None)
        if refusal is not None:
            self._fault_warnings.warn(refusal.culprit, _warning(refusal.reason))

    def _note_failed(self, signature: Signature, program: Any, failed: Exception) -> None:
        if failed.args:
            self._machine.program_failed(signature, program, f"the compiled form failed: {failed}")
        else:
            self._machine.checks_failed(signature)

    def _enter(self, key: Hashable, values: list[Any]) -> Signature:
        """Register a new signature; return the one that serves `values`."""
        refusal = ""
        if not self._is_compiled:
            refusal = _DETERMINISTIC
        elif JAX.is_inherited:
            refusal = INHERITED
        elif key is None:
            refusal = self._inputs.why_no_key(values)
        signature, action = self._machine.enter(key, refusal, values)
        return self._follow(action, signature, values)

    def _follow(self, action: Action, signature: Signature, values: list[Any]) -> Signature:
        """Carry out the machine's action; return the signature that serves `values`."""
        if action is Action.COMPILE:
            return self._compile(signature, values)
        if action is Action.SUBMIT:
            job = lambda: self._compile_later(signature, values)  # noqa: E731 - a job has no name
            if not self._background.submit(self._functions, job):
                self._machine.queue_full(signature)
        return signature

    def _compile_later(self, signature: Signature, values: list[Any]) -> None:
        if not self._functions.closing.is_cancelled and self._machine.start_compiling(signature):
            self._compile(signature, values)

    def _compile(self, signature: Signature, values: list[Any]) -> Signature:
        """Compile a signature or record why not; return the signature that serves `values`.

        The program may require more static inputs than the signature has. Its key then contains
        their values, and signatures with fewer static inputs are never looked up again.
        """
        try:
            program = self._builder.make(signature.record, values)
        except BaseException as error:
            if not self._note_fault(signature, error):
                raise
            return signature
        if isinstance(program, Refusal):
            self._machine.not_compiled(signature, program.event, program.reason)
            if program.culprit is not None:
                self._suspects[signature] = program
                if signature.counts.num_straight:
                    self._warn_of_fault(signature)
            return signature
        static_of = self._inputs.static_of
        static = static_of(program.key)
        return self._machine.program_ready(
            signature, program, program.key, lambda key: static_of(key) < static
        )

    def _note_fault(self, signature: Signature, error: BaseException) -> bool:
        """Record that the compiler raised; return whether the interpreter continues.

        It does not after an interrupt by the user, or after an internal error in validation mode.
        """
        reason = f"the compiler failed: {type(error).__name__}: {error}"
        self._machine.not_compiled(signature, Event.COMPILER_RAISED, reason)
        if isinstance(error, WrongOutputsError):  # found in validation mode only
            self._straight.fail(error)
            return True
        is_ours = isinstance(error, InternalError) and is_validation_on()
        if is_ours or not isinstance(error, Exception):
            return False
        self._fault_warnings.warn(("jit", type(error)), _warning(reason))
        return True


def _warning(reason: str) -> str:
    return f"{reason}. The nodes are interpreted; `Session.explain` lists them"
