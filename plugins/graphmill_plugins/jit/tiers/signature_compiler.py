"""`SignatureCompiler`: compile the signatures of a cluster, at once or in the background.

Its `TierMachine` decides which signatures are compiled and when; its `ProgramBuilder` does it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import InternalError
from graphmill.spi.executors import is_validation_on
from graphmill.spi.process import track_forks
from graphmill_plugins._jax import INHERITED, JAX
from graphmill_plugins.jit.ir.errors import WrongOutputsError
from graphmill_plugins.jit.tiers.program_builder import CompileFailure, ProgramBuilder
from graphmill_plugins.jit.tiers.states import Action, Event

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from graphmill.spi.compilers import FunctionLibraryRuntime
    from graphmill_plugins.jit.ir.signature import Inputs
    from graphmill_plugins.jit.tiers.signature_state import Signature
    from graphmill_plugins.jit.tiers.tier_machine import TierMachine

_DETERMINISTIC: Final = "the session is deterministic: nothing is compiled"


class SignatureCompiler:
    """Compiles the signatures of one cluster and reports the outcomes to its `TierMachine`.

    Args:
        machine: the states of the signatures.
        builder: compiles one signature.
        inputs: describes the cluster's inputs.
        functions: the functions of the session, whose host has the background thread.
        is_compiled: whether anything may be compiled.
        fail: called with an error that the compiler detected in the cluster itself.
    """

    def __init__(
        self,
        machine: TierMachine,
        builder: ProgramBuilder,
        inputs: Inputs,
        functions: FunctionLibraryRuntime,
        *,
        is_compiled: bool,
        fail: Callable[[WrongOutputsError], None],
    ) -> None:
        self._machine = machine
        self._builder = builder
        self._inputs = inputs
        self._functions = functions
        self._background = functions.host.background
        self._fault_warnings = functions.host.fault_warnings
        self._is_compiled = is_compiled
        self._fail = fail
        self.suspects: dict[Signature, CompileFailure] = {}
        track_forks(self)

    def after_fork_in_child(self) -> None:
        """Interpret everything if JAX is unusable in the child; otherwise resubmit compilations."""
        if JAX.is_inherited:
            self._machine.compiler_lost(INHERITED)
        else:
            self._machine.compilations_lost()

    def enter(self, key: Hashable, values: Sequence[Any]) -> Signature:
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

    def count_call(self, signature: Signature, values: Sequence[Any]) -> None:
        """Count a call of a signature whose `counts_calls` is set, and compile it if it is due."""
        self._follow(self._machine.count_call(signature, values), signature, values)

    def note_failed(self, signature: Signature, program: Any, failed: Exception) -> None:
        """Report failed checks of a program; an error with a text says that it cannot run."""
        if failed.args:
            self._machine.program_failed(signature, program, f"the compiled form failed: {failed}")
        else:
            self._machine.checks_failed(signature)

    def warn_of_fault(self, signature: Signature) -> None:
        """Warn that code raised an error while it was traced, though it runs on these inputs."""
        refusal = self.suspects.pop(signature, None)
        if refusal is not None:
            self._fault_warnings.warn(refusal.culprit, _warning(refusal.reason))

    def _follow(self, action: Action, signature: Signature, values: Sequence[Any]) -> Signature:
        """Carry out the machine's action; return the signature that serves `values`."""
        if action is Action.COMPILE:
            return self._compile(signature, values)
        if action is Action.SUBMIT:
            job = lambda: self._compile_later(signature, values)  # noqa: E731 - a job has no name
            what = f"the compilation of {self._builder.name} for {signature.record.signature}"
            if not self._background.submit(self._functions, job, what):
                self._machine.queue_full(signature)
        return signature

    def _compile_later(self, signature: Signature, values: Sequence[Any]) -> None:
        if not self._functions.closing.is_cancelled and self._machine.start_compiling(signature):
            self._compile(signature, values)

    def _compile(self, signature: Signature, values: Sequence[Any]) -> Signature:
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
        if isinstance(program, CompileFailure):
            self._machine.not_compiled(signature, program.event, program.reason)
            if program.culprit is not None:
                self.suspects[signature] = program
                if signature.counts.num_straight:
                    self.warn_of_fault(signature)
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
            self._fail(error)
            return True
        is_ours = isinstance(error, InternalError) and is_validation_on()
        if is_ours or not isinstance(error, Exception):
            return False
        self._fault_warnings.warn(("jit", type(error)), _warning(reason))
        return True


def _warning(reason: str) -> str:
    return f"{reason}. The nodes are interpreted; `Session.explain` lists them"
