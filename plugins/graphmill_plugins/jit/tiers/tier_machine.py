"""`TierMachine`: decide which tier serves each signature of one cluster.

It reads no clock and calls neither the compiler nor kernels: the cluster's kernel reports events to
it and carries out the actions that it returns. The states and the transition table are in `states`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from graphmill.spi.executors import is_validation_on
from graphmill.spi.process import fork_safe_lock
from graphmill_plugins.jit.tiers.call_times import CallTimes
from graphmill_plugins.jit.tiers.signature_records import SignatureRecords
from graphmill_plugins.jit.tiers.signature_state import Signature
from graphmill_plugins.jit.tiers.signature_table import (
    CALLS_FOR_A_SLOT,
    SignatureTable,
)
from graphmill_plugins.jit.tiers.states import HAS_PROGRAM, Action, Event, State

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from graphmill.spi import ClusterRecord, SignatureRecord

    class Background(Protocol):
        """The interface of the background compiler."""

        @property
        def is_idle(self) -> bool:
            """Whether no cluster is being compiled."""


TRIAL_CALLS: Final = 8  # program calls before the faster of two tiers is chosen
VARIED_TRIAL_CALLS: Final = 16  # the same if the duration of a call depends on the values
CALLS_TO_NEXT_TRIAL: Final = (256, 4096)
CALLS_TO_NEXT_SUBMISSION: Final = 8  # after the queue of the background compiler was full
MAX_FAILED: Final = 32  # calls with failed checks before the program is suspended
CALLS_SUSPENDED: Final = 4096  # calls for which it is suspended then
EVICTED: Final = "it was evicted: another signature has been called more often and has its slot"
_ASYNCHRONOUS: Final = "not compared: wall-clock timing is meaningless on asynchronous devices"
_BEING_COMPILED: Final = "it is being compiled"
_WITHOUT_PROGRAM: Final = (State.COUNTING, State.NO_SLOT, State.QUEUED, State.COMPILING)
_REPLACED: Final = "another signature, with other static values or variable shapes, has its program"


class TierRules(NamedTuple):
    """The parameters by which clusters differ.

    Attributes:
        calls: number of calls after which a signature is compiled; 0 for before its first call.
        varies: whether the duration of a call depends on the values.
        is_compared: whether a program is compared with straight-line code.
        keeps_slower: whether a program serves even if it is slower than straight-line code.
    """

    calls: int = 2
    varies: bool = False
    is_compared: bool = True
    keeps_slower: bool = False

    @property
    def trial_calls(self) -> int:
        """The number of program calls in a trial."""
        return VARIED_TRIAL_CALLS if self.varies else TRIAL_CALLS


class TierMachine:
    """The tiers of one cluster.

    Threads: `_lock` guards the table and the state of each signature; a call of a compiled
    signature takes no lock.

    Args:
        record: the cluster's record, for `explain`.
        rules: the cluster's parameters.
        background: the background compiler.
        describe: returns the signature of some inputs as text.

    Attributes:
        find: returns the signature of a key, or None.
    """

    def __init__(
        self,
        record: ClusterRecord,
        rules: TierRules,
        background: Background,
        describe: Callable[[Sequence[Any]], str],
    ) -> None:
        self._lock = fork_safe_lock()
        self._table = SignatureTable()
        self._records = SignatureRecords(record)
        self._history = record.history
        self._rules = rules
        self._background = background
        self._describe = describe
        self._validates = is_validation_on()
        self.find = self._table.get

    def history(self) -> str:
        """Return the last transitions of the cluster's signatures with their causes, one per line.

        Example:
            float32[3]: queued -> compiling (compilation started)
        """
        return str(self._history)

    def validate(self) -> None:
        """Check the invariants; tests call it after each event.

        Raises:
            AssertionError: an invariant is broken; the message says which.
        """
        self._table.validate()

    def programs(self) -> list[Any]:
        """Return all programs, whether or not they serve now."""
        with self._lock:
            return [one.kept_program for one in self._table.holders()]

    def enter(self, key: Hashable, refusal: str, values: Sequence[Any]) -> tuple[Signature, Action]:
        """Register a new signature; return it and the action to take.

        Args:
            key: the hashable signature of its inputs.
            refusal: why nothing is compiled for such inputs; empty if they may be compiled.
            values: the inputs.
        """
        with self._lock:
            tier = self.find(key)
            if tier is not None:
                return tier, Action.KEEP
            event, reason = self._first_event(refusal)
            signature = self._new(key, self._first_record(event, reason, values))
            if event is Event.ELIGIBLE:
                signature.calls_left = self._rules.calls
            action = self._apply(signature, event, reason)
            self._table.add(signature)
            return signature, action

    def count_call(self, signature: Signature, values: Sequence[Any]) -> Action:
        """Count a call of a signature whose `counts_calls` is set; return the action to take."""
        state = signature.state
        if state is State.COUNTING:
            return self._count_down(signature)
        if state is State.NO_SLOT:
            return self._claim(signature, values)
        return self._resume(signature)

    def start_compiling(self, signature: Signature) -> bool:
        """Record that the background compiler starts on a signature; return whether it may."""
        with self._lock:
            if signature.state is not State.QUEUED:
                return False  # the program of another signature serves its inputs
            self._apply(signature, Event.COMPILATION_STARTED, _BEING_COMPILED)
            return True

    def queue_full(self, signature: Signature) -> None:
        """Record that the background compiler rejected a signature."""
        with self._lock:
            if signature.state is State.QUEUED:
                cause = (
                    "too many compilations were waiting; it is submitted again after "
                    f"{CALLS_TO_NEXT_SUBMISSION} calls"
                )
                signature.calls_left = CALLS_TO_NEXT_SUBMISSION
                self._apply(signature, Event.QUEUE_FULL, cause)

    def not_compiled(self, signature: Signature, event: Event, cause: str) -> None:
        """Record that the compiler refused a signature or failed."""
        with self._lock:
            if signature.state is State.COMPILING:
                self._apply(signature, event, cause)

    def program_ready(
        self,
        signature: Signature,
        program: Any,
        key: Hashable,
        is_outdated: Callable[[Hashable], bool],
    ) -> Signature:
        """Make a program serve its inputs; return their signature.

        Args:
            signature: the signature that it was compiled for.
            program: the compiled program.
            key: the signature of the inputs that it serves. It differs from that of `signature` if
                more inputs had to be static.
            is_outdated: whether a key has too few static inputs, so that it is not used any more.
        """
        with self._lock:
            if signature.state is not State.COMPILING:
                return signature  # the program of another signature serves its inputs
            if key == signature.key:
                self._serve(signature, program)
                return signature
            self._apply(signature, Event.REPLACED, _REPLACED)
            for outdated in self._table.remove_if(is_outdated):
                if outdated.state is State.COUNTING or outdated.state in HAS_PROGRAM:
                    self._release(outdated, Event.REPLACED, _REPLACED)
            return self._serve_others(key, program, signature.record)

    def call_timed(self, signature: Signature, nanoseconds: int) -> None:
        """Record the duration of a program call; after enough calls choose the faster tier.

        A thread that compiles slows programs down more than generated code, which rarely releases
        the GIL. Programs are also slowed down by transfers to clusters that are not compiled yet.
        So a program that loses during compilations gets another trial when all are done.
        """
        signature.compiled_times.add(nanoseconds)
        if signature.compiled_times.count < self._rules.trial_calls:
            return
        with self._lock:
            if signature.state is State.TRIAL:  # otherwise another thread was first
                self._choose_tier(signature)

    def checks_failed(self, signature: Signature) -> None:
        """Record failed checks; suspend the program if most calls fail."""
        counts = signature.counts
        counts.num_checks_failed += 1
        failed, passed = counts.num_checks_failed, counts.num_compiled
        failed_before, passed_before = signature.checks_seen
        if failed - failed_before < max(MAX_FAILED, passed - passed_before):
            return
        with self._lock:
            if signature.state not in (State.TRIAL, State.COMPILED):
                return  # another thread was first
            signature.checks_seen = failed, passed
            signature.calls_left = CALLS_SUSPENDED
            cause = (
                f"its checks failed in {failed} calls, which the interpreter repeated, and passed "
                f"in {passed}: the next {CALLS_SUSPENDED} calls are interpreted"
            )
            self._apply(signature, Event.CHECKS_FAIL, cause)

    def program_failed(self, signature: Signature, program: Any, cause: str) -> None:
        """Record that a program cannot run for any values."""
        signature.counts.num_checks_failed += 1
        with self._lock:
            if signature.kept_program is program:
                self._release(signature, Event.PROGRAM_RAISED, cause)

    def compilations_lost(self) -> None:
        """Record that the background compiler was lost in a fork."""
        with self._lock:
            for signature in self._table.in_states((State.QUEUED, State.COMPILING)):
                signature.calls_left = 1
                cause = "the process was forked before it was compiled; the next call submits it"
                self._apply(signature, Event.COMPILATION_LOST, cause)

    def compiler_lost(self, cause: str) -> None:
        """Record that this process can use neither the compiler nor its programs."""
        with self._lock:
            for signature in self._table.in_states((*_WITHOUT_PROGRAM, *HAS_PROGRAM)):
                signature.others_calls = {}
                self._release(signature, Event.COMPILER_LOST, cause)

    def _first_event(self, refusal: str) -> tuple[Event, str]:
        if refusal:
            return Event.NOT_ELIGIBLE, refusal
        if self._table.is_full():
            return Event.TABLE_FULL, self._table.why_full()
        calls = self._rules.calls
        if not calls:
            return Event.DUE_IMMEDIATELY, _BEING_COMPILED
        return (
            Event.ELIGIBLE,
            f"it will be compiled after {calls} calls with inputs of these shapes",
        )

    def _first_record(self, event: Event, reason: str, values: Sequence[Any]) -> SignatureRecord:
        if event is Event.NOT_ELIGIBLE:
            return self._records.shared(reason)
        if event is Event.TABLE_FULL:
            return self._records.without_slot(reason)
        return self._records.new(self._describe(values))

    def _new(self, key: Hashable, record: SignatureRecord) -> Signature:
        return Signature(key, record, self._history, is_compared=self._rules.is_compared)

    def _apply(self, signature: Signature, event: Event, cause: str) -> Action:
        action = signature.apply(event, cause)
        if self._validates:
            signature.validate()
        return action

    def _count_down(self, signature: Signature) -> Action:
        with self._lock:
            if signature.state is not State.COUNTING:
                return Action.KEEP  # another thread was first
            signature.calls_left -= 1
            if signature.calls_left:
                return Action.KEEP
            return self._apply(signature, Event.CALLED_OFTEN, "it waits for the compiler")

    def _claim(self, signature: Signature, values: Sequence[Any]) -> Action:
        """Count a call of a signature without a slot; give it a slot after enough calls."""
        signature.refused_calls += 1
        if 1 < signature.refused_calls < CALLS_FOR_A_SLOT:
            return Action.KEEP
        with self._lock:
            if signature.state is not State.NO_SLOT:
                return Action.KEEP  # another thread was first
            is_first = signature.refused_calls == 1
            rival = None if is_first else self._table.rival_of(signature)
            if rival is None:
                signature.refused_calls = 1  # the count starts again
                signature.others_calls = {one: one.num_calls for one in self._table.rivals()}
                return Action.KEEP
            return self._move_slot(rival, signature, values)

    def _move_slot(self, rival: Signature, signature: Signature, values: Sequence[Any]) -> Action:
        self._release(rival, Event.SLOT_LOST, EVICTED)
        self._records.retire(rival.record)
        self._table.remove(rival.key)
        signature.others_calls = {}
        signature.take_record(self._records.new(self._describe(values)))
        self._table.put(signature)
        return self._apply(signature, Event.SLOT_WON, "it waits for the compiler")

    def _resume(self, signature: Signature) -> Action:
        """Count a call during a pause; end the pause after the last one, unless a compile runs."""
        if signature.calls_left:
            signature.calls_left -= 1
        elif self._background.is_idle:
            with self._lock:
                if signature.kept_program is not None and signature.program is None:
                    signature.compiled_times = CallTimes()
                    self._apply(signature, Event.PAUSE_ENDED, "")
        return Action.KEEP

    def _serve(self, signature: Signature, program: Any) -> None:
        signature.calls_left = 0
        signature.others_calls = {}
        signature.kept_program = program
        self._apply(signature, Event.PROGRAM_READY, "")
        if not self._rules.is_compared:
            self._apply(signature, Event.WON, _ASYNCHRONOUS)

    def _serve_others(self, key: Hashable, program: Any, record: SignatureRecord) -> Signature:
        """Make a program serve inputs that did not request it; return their signature."""
        signature = self.find(key)
        if signature is not None and signature.state not in _WITHOUT_PROGRAM:
            return signature  # it already has a program, or a reason to have none
        if signature is None or signature.state is State.NO_SLOT:
            if self._table.is_full():  # the requested signature has lost its slot meanwhile
                return signature or self._enter_full(key)
            signature = signature or self._new(key, record)
            signature.take_record(record)
            self._table.put(signature)
        self._serve(signature, program)
        return signature

    def _enter_full(self, key: Hashable) -> Signature:
        cause = self._table.why_full()
        signature = self._new(key, self._records.without_slot(cause))
        self._apply(signature, Event.TABLE_FULL, cause)
        self._table.add(signature)
        return signature

    def _choose_tier(self, signature: Signature) -> None:
        """Choose the faster tier of a signature after its trial."""
        varies = self._rules.varies
        straight = signature.straight_times.typical(varies=varies)
        compiled = signature.compiled_times.typical(varies=varies)
        has_straight = signature.straight_times.count > 0
        record = signature.record
        record.straight_ns, record.compiled_ns = straight if has_straight else 0, compiled
        cause = f"compiled it takes {compiled / 1000:.1f} µs"
        if has_straight:
            cause += f", as straight-line code {straight / 1000:.1f} µs"
        is_won = self._rules.keeps_slower or compiled <= straight
        cause += f": {'the compiled program' if is_won else 'straight-line code'} is used"
        if is_won:
            self._apply(signature, Event.WON, cause)
        elif not self._background.is_idle:
            self._apply(signature, Event.LOST_WHILE_COMPILING, cause)
        else:
            self._lose(signature, cause)

    def _lose(self, signature: Signature, cause: str) -> None:
        """Return to straight-line code: temporarily after the first lost trials, then permanently.

        A trial is only a few calls, which other work on the machine may have slowed down.
        """
        signature.num_losses += 1
        if signature.num_losses > len(CALLS_TO_NEXT_TRIAL):
            self._release(signature, Event.LOST_LAST, cause)
            return
        calls = signature.calls_left = CALLS_TO_NEXT_TRIAL[signature.num_losses - 1]
        signature.straight_times = CallTimes()
        self._apply(signature, Event.LOST, f"{cause}; it will be tried again after {calls} calls")

    def _release(self, signature: Signature, event: Event, cause: str) -> None:
        """Send an event after which a signature has no program."""
        signature.calls_left = 0
        self._apply(signature, event, cause)
