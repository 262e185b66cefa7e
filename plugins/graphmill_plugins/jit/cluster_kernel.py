"""`ClusterKernel`: the kernel of a cluster, which runs it in the best available tier.

It calls straight-line code and compiled programs and measures their durations. Its `TierMachine`
(`tiers`) decides which tier serves a signature.
"""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from graphmill.spi import ClusterRecord, kernel
from graphmill_plugins.jit.ir.body_kernels import BodyKernels
from graphmill_plugins.jit.ir.function_bodies import bodies_of
from graphmill_plugins.jit.ir.invariant_nodes import is_source
from graphmill_plugins.jit.ir.lowering_choices import CompiledForms
from graphmill_plugins.jit.ir.scheduled_body import ScheduledBodies
from graphmill_plugins.jit.ir.signature import Inputs
from graphmill_plugins.jit.ir.source_handles import SourceHandles
from graphmill_plugins.jit.straight.straight_line import StraightLine
from graphmill_plugins.jit.tiers.on_stack_replacement import LoopReplacements
from graphmill_plugins.jit.tiers.program_builder import ProgramBuilder, compiler_module
from graphmill_plugins.jit.tiers.signature_compiler import SignatureCompiler
from graphmill_plugins.jit.tiers.signature_records import signature_text
from graphmill_plugins.jit.tiers.tier_machine import TierMachine, TierRules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import OpKernelConstruction, OpKernelContext
    from graphmill_plugins.jit.ir.cluster_attr import ClusterAttr
    from graphmill_plugins.jit.tiers.signature_state import Signature


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
        called = bodies_of(functions)
        bodies = ScheduledBodies(attr.body, host, functions.effects, device=device, called=called)
        bodies.measured_as = construction.node_name if attr.measures_nodes else ""
        kernels = BodyKernels(device, functions, attr.owner, attr.shapes)
        to_device = None if device.is_host_memory else device.to_device
        record = attr.record or ClusterRecord(construction.node_name, ())
        replacements = None
        if attr.mode == "tiered":
            replacements = LoopReplacements(attr, bodies, functions, device, record)
        self._straight = StraightLine(bodies, kernels.create, device.name, to_device, replacements)
        if replacements is not None:
            replacements.kernels, replacements.fail = self._straight.kernels, self._straight.fail
        sources = {
            node: kernel
            for node, kernel in self._straight.kernels.items()
            if is_source(node) or kernel.variable is not None
        }
        self._inputs = inputs = Inputs(bodies.main, sources)
        self._sources = SourceHandles(sources.values(), device)
        self._has_sources = bool(sources)
        builder = ProgramBuilder(
            construction.node_name, bodies, inputs, device, attr.cache_dir, attr.cache_bytes
        )
        record.source = self._straight.source
        record.forms = CompiledForms(bodies)
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
        self._compiler = SignatureCompiler(
            self._machine,
            builder,
            inputs,
            functions,
            is_compiled=attr.mode != "straight-line",
            fail=self._straight.fail,
        )

    def __call__(self, ctx: OpKernelContext, inputs: list[Any]) -> list[Any]:
        """Return the outputs.

        Raises:
            OpError: a node failed; the error names it.
        """
        values = inputs
        if self._has_sources:
            values = [*inputs, *self._sources.of(ctx.args)]
        key = self._inputs.key(values)
        signature = self._find(key)
        if signature is None:
            signature = self._compiler.enter(key, values)
        program = signature.program
        if program is None:
            if signature.counts_calls:
                self._compiler.count_call(signature, values)
                program = signature.program
            if program is None:
                return self._interpret(ctx, inputs, signature)
        is_measured = signature.is_measured
        began = perf_counter_ns() if is_measured else 0
        try:
            results = program(values, ctx.args)
        except compiler_module().CheckFailedError as failed:
            self._compiler.note_failed(signature, program, failed)
            return self._interpret(ctx, inputs, signature)
        signature.counts.num_compiled += 1
        if is_measured:
            self._machine.call_timed(signature, perf_counter_ns() - began)
        return list(results)

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
        if self._compiler.suspects:
            self._compiler.warn_of_fault(signature)
        return list(results)
