"""`ProgramBuilder`: compile a signature's program, and record each attempt."""

from __future__ import annotations

from time import perf_counter, time_ns
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from graphmill.errors import UnimplementedError
from graphmill.spi import COMPILED, CompileRecord
from graphmill.spi.process import INFO, deferred_forks, log_event
from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.tiers.signature_records import signature_text
from graphmill_plugins.jit.tiers.states import Event

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from graphmill.spi import Device, SignatureRecord
    from graphmill_plugins.jit.ir.errors import NeedsStatic
    from graphmill_plugins.jit.ir.scheduled_body import ScheduledBodies
    from graphmill_plugins.jit.ir.signature import Inputs
    from graphmill_plugins.jit.programs.compiled_cluster import CompiledCluster

_MAX_ATTEMPTS: Final = 4  # to compile one signature, each with more static inputs


class CompileFailure(NamedTuple):
    """The reason why a signature has no program.

    Attributes:
        event: the event to send to the signature.
        reason: text for users.
        culprit: identifies the code that raised while it was traced; None if nothing is at fault.
    """

    event: Event
    reason: str
    culprit: Hashable = None


class ProgramBuilder:
    """Compiles the signatures of one cluster.

    Threads: any may call; concurrent compilations share only `inputs.static`, which only grows.

    Attributes:
        name: the name of the cluster, for messages.

    Args:
        name: see the attribute.
        bodies: the cluster.
        inputs: describes the cluster's inputs.
        device: the cluster's device.
        cache_folder: folder of the persistent compilation cache; empty for none.
        cache_bytes: maximum size of that cache; 0 for the default.
        is_loop: whether the cluster is one loop, as `loop_body` returns it.
    """

    def __init__(
        self,
        name: str,
        bodies: ScheduledBodies,
        inputs: Inputs,
        device: Device,
        cache_folder: str,
        cache_bytes: int,
        *,
        is_loop: bool = False,
    ) -> None:
        self.name = name
        self._bodies = bodies
        self._inputs = inputs
        self._device = device
        self._cache_folder = cache_folder
        self._cache_bytes = cache_bytes
        self._is_loop = is_loop

    def make(
        self, record: SignatureRecord, values: Sequence[Any]
    ) -> CompiledCluster | CompileFailure:
        """Compile a signature; find by trial which inputs must be static.

        Args:
            record: the signature's record, to which each attempt is added.
            values: inputs that have the signature.
        """
        try:
            compiler = compiler_module()
        except ImportError as error:
            return CompileFailure(Event.TRACING_REFUSED, f"JAX cannot be imported: {error}")
        except UnimplementedError as error:
            return CompileFailure(Event.TRACING_REFUSED, error.message)
        from graphmill.spi.kernels import with_memory_limit  # many graphs are not compiled

        memory = compiler.memory_of(self._device)
        folder, max_bytes = self._cache_folder, self._cache_bytes
        cache = compiler.ProgramCache(folder, max_bytes, memory.jax_device) if folder else None
        compile_cluster = with_memory_limit(
            self._bodies.policy.memory_limit, compiler.compile_cluster
        )
        cause, reason = ": ".join(filter(None, ["a new signature", record.difference])), ""
        for _ in range(_MAX_ATTEMPTS):
            began = perf_counter()
            try:
                cluster = compile_cluster(
                    self._bodies, self._inputs, values, cache, memory, is_loop=self._is_loop
                )
            except (compiler.NotTraceable, MemoryError) as error:
                reason = str(error)
                took = perf_counter() - began
                attempt = CompileRecord(took, "refused", cause, reason, ended=time_ns())
                record.compiles.append(attempt)
                self._log(record)
                if isinstance(error, compiler.KernelFault):
                    return CompileFailure(Event.COMPILER_RAISED, reason, error.culprit)
                if not (isinstance(error, compiler.NeedsStatic) and self._learn(error)):
                    break
                cause = f"recompiled with more constant inputs: {reason}"
            else:
                self._note(record, cluster, cause, values)
                return cast("CompiledCluster", cluster)
        return CompileFailure(Event.TRACING_REFUSED, reason)

    def _note(
        self, record: SignatureRecord, cluster: CompiledCluster, cause: str, values: Sequence[Any]
    ) -> None:
        outcome = "loaded" if cluster.is_loaded else "shared" if cluster.is_shared else COMPILED
        attempt = CompileRecord(cluster.seconds, outcome, cause, "", cluster.cache, time_ns())
        record.compiles.append(attempt)
        record.seconds = cluster.seconds
        record.signature = signature_text(self._inputs, values)  # more inputs may be static now
        self._log(record)

    def _log(self, record: SignatureRecord) -> None:
        """Log the last attempt to compile a signature."""
        last = record.compiles[-1]
        fields: dict[str, object] = {
            "cluster": self.name,
            "signature": record.signature,
            "seconds": round(last.seconds, 6),
            "cause": last.cause,
        }
        fields |= {"reason": last.reason} if last.reason else {}
        fields |= {"cache": last.cache} if last.cache else {}
        log_event("jit", INFO, last.outcome, **fields)

    def _learn(self, needs: NeedsStatic) -> bool:
        """Make required inputs static; return whether any is new."""
        more = compiler_module().sources_of(self._bodies.main, needs, self._inputs)
        is_new = not more <= self._inputs.static
        self._inputs.static |= more
        return bool(is_new)


def compiler_module() -> Any:
    """Import the compiler, and with it JAX, when the first cluster is compiled.

    Raises:
        UnimplementedError: JAX is not installed.
    """
    jax_module()
    with deferred_forks():
        from graphmill_plugins.jit.programs import compiler

    return compiler
