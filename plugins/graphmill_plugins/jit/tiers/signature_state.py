"""`Signature`: the state of one signature of a cluster, its program and its timings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.spi.compilers import StateMachine
from graphmill_plugins.jit.tiers.call_times import CallTimes
from graphmill_plugins.jit.tiers.signature_records import show_state
from graphmill_plugins.jit.tiers.states import (
    COUNTS_CALLS,
    HAS_PROGRAM,
    HOLDS_SLOT,
    MEANING,
    MEASURED,
    SERVED_COMPILED,
    TRANSITIONS,
    Action,
    Event,
    State,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from graphmill.spi import SignatureRecord
    from graphmill.spi.compilers import CallCounts, TransitionHistory

    Program = Callable[..., Any]


class Signature(StateMachine[State, Event, Action]):
    """One signature of a cluster.

    A call reads `program`, `is_measured` and `counts_calls` instead of the state. The state
    determines them and `holds_slot`; `apply` sets them all together.

    Threads: the lock of its `TierMachine` guards the state; counts and times are statistics.

    Args:
        key: the hashable signature of its inputs.
        record: what `explain` shows of it; written, never read.
        history: records its transitions.
        is_compared: whether its program is ever compared with straight-line code.

    Attributes:
        key, record: as given; `take_record` replaces the record.
        counts: the call counts of the record.
        program: the program that serves its calls; None for straight-line code.
        kept_program: its program, which is still stored while it is paused.
        is_measured: whether its calls are timed.
        counts_calls: whether interpreted calls lead to the next event.
        holds_slot: whether it counts as one of the signatures that may be compiled.
        calls_left: in `COUNTING` the calls until it is compiled, in a paused state those until it
            may serve again; 0 otherwise.
        straight_times, compiled_times: durations of its calls in each tier, for the trial.
        num_losses: how many trials it has lost.
        checks_seen: the counts of failed and passed checks when it was last suspended.
        refused_calls: in `NO_SLOT`, its calls since the calls of other signatures were last read.
        others_calls: in `NO_SLOT`, the calls at that time of each signature that may lose its slot.
    """

    __slots__ = (
        *("calls_left", "checks_seen", "compiled_times", "counts", "counts_calls", "holds_slot"),
        *(
            "is_compared",
            "is_measured",
            "kept_program",
            "key",
            "num_losses",
            "others_calls",
            "program",
            "record",
        ),
        *("refused_calls", "straight_times"),
    )

    def __init__(
        self,
        key: Hashable,
        record: SignatureRecord,
        history: TransitionHistory,
        *,
        is_compared: bool,
    ) -> None:
        super().__init__(TRANSITIONS, State.NEW, history)
        self.key = key
        self.is_compared = is_compared
        self.program: Program | None = None
        self.kept_program: Program | None = None
        self.is_measured = False
        self.counts_calls = False
        self.holds_slot = False
        self.calls_left = 0
        self.straight_times, self.compiled_times = CallTimes(), CallTimes()
        self.num_losses = 0
        self.checks_seen = (0, 0)
        self.refused_calls = 0
        self.others_calls: dict[Signature, int] = {}
        self.take_record(record)

    def take_record(self, record: SignatureRecord) -> None:
        """Attach another record."""
        self.record: SignatureRecord = record
        self.counts: CallCounts = record.counts
        self.subject = record.signature

    @property
    def num_calls(self) -> int:
        """The number of calls, if it has a record of its own."""
        return self.counts.num_compiled + self.counts.num_straight

    def apply(self, event: Event, cause: str = "") -> Action:
        """Change the state and the attributes derived from it; return the action to take.

        Raises:
            InternalError: the event cannot happen in this state; in validation mode only.
        """
        action = self.send(event, cause)
        if action is None:
            return Action.KEEP
        if action is Action.DISCARD:
            self.kept_program = None
        is_served, self.counts_calls, self.holds_slot, is_measured = MEANING[self.state]
        self.program = self.kept_program if is_served else None
        self.is_measured = is_measured and self.is_compared
        show_state(self.record, self.state, cause, is_wanted=self.holds_slot)
        return action

    def validate(self) -> None:
        """Check the invariants of one signature.

        Raises:
            AssertionError: an invariant is broken; the message says which.
        """
        state = self.state
        rules = {
            "a program is stored": (self.kept_program is not None) == (state in HAS_PROGRAM),
            "its program serves": (self.program is not None) == (state in SERVED_COMPILED),
            "the serving program is the stored one": self.program in (None, self.kept_program),
            "its calls are timed": self.is_measured == (self.is_compared and state in MEASURED),
            "it holds a slot": self.holds_slot == (state in HOLDS_SLOT),
            "its calls are counted": self.counts_calls == (state in COUNTS_CALLS),
            "calls are left": self.calls_left >= 0
            and (self.calls_left > 0 or state is not State.COUNTING)
            and (self.calls_left == 0 or state in COUNTS_CALLS - {State.NO_SLOT}),
            "it backs off after a loss": state is not State.BACKING_OFF or self.num_losses > 0,
            "calls of others are compared for a slot": not self.others_calls
            or state is State.NO_SLOT,
        }
        broken = [rule for rule, holds in rules.items() if not holds]
        if broken:
            raise AssertionError(
                f"{self.subject} is {state.value!r}; broken invariants: {', '.join(broken)}"
            )
