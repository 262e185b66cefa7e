"""The states of a cluster's signature, the events, and the transition table.

Every signature starts as `NEW` and ends as `COMPILED` or in a final state, in which straight-line
code serves it. The sets below define what each state means for a call.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from graphmill.spi.compilers import Label


class State(Label):
    """The progress of a signature towards a compiled program."""

    NEW = "new"
    """It was called for the first time; its next state is not decided yet."""
    COUNTING = "counting"
    """It is compiled once it has been called often enough."""
    NO_SLOT = "no slot"
    """All program slots are taken; its calls count towards the slot of another signature."""
    QUEUED = "queued"
    """It waits for the background compiler."""
    COMPILING = "compiling"
    """It is being traced and compiled."""
    TRIAL = "trial"
    """Its program serves, and is compared with straight-line code."""
    COMPILED = "compiled"
    """Its program won its trial and serves."""
    AWAITING_IDLE = "awaiting idle"
    """Its program was slower while others were compiled; the next trial starts when none is."""
    BACKING_OFF = "backing off"
    """Its program was slower; the next trial starts after a number of calls."""
    TRIAL_SUSPENDED = "trial suspended"
    """During its trial the program's checks failed in most calls; it pauses for many calls."""
    SUSPENDED = "suspended"
    """The program's checks failed in most calls; it pauses for many calls."""
    NOT_COMPILABLE = "not compilable"
    """Nothing is compiled for such inputs, or in such a session."""
    NOT_TRACEABLE = "not traceable"
    """The compiler refused it, with a reason."""
    COMPILER_FAILED = "compiler failed"
    """The compiler, or a plugin's code that it called, raised an exception."""
    PROGRAM_FAILED = "program failed"
    """The program was compiled, but cannot be run."""
    SLOWER = "slower"
    """Its program lost all its trials."""
    SUPERSEDED = "superseded"
    """Another signature serves its inputs: with more static values, or other variable shapes."""
    EVICTED = "evicted"
    """Another signature was called more often and got its slot."""


class Event(Label):
    """An event in the life of a signature."""

    ELIGIBLE = "eligible"
    DUE_IMMEDIATELY = "due immediately"
    NOT_ELIGIBLE = "not eligible"
    TABLE_FULL = "table full"
    CALLED_OFTEN = "called often"
    SLOT_WON = "slot won"
    SLOT_LOST = "slot lost"
    QUEUE_FULL = "queue full"
    COMPILATION_STARTED = "compilation started"
    TRACING_REFUSED = "tracing refused"
    COMPILER_RAISED = "compiler raised"
    REPLACED = "replaced"
    PROGRAM_READY = "program ready"
    WON = "trial won"
    LOST_WHILE_COMPILING = "trial lost while compiling"
    LOST = "trial lost"
    LOST_LAST = "last trial lost"
    CHECKS_FAIL = "checks fail"
    PROGRAM_RAISED = "program raised"
    PAUSE_ENDED = "pause ended"
    COMPILATION_LOST = "compilation lost in a fork"
    COMPILER_LOST = "compiler lost in a fork"


class Action(Label):
    """The action to take after a transition."""

    KEEP = "nothing changes for calls"
    SUBMIT = "hand the signature to the background compiler"
    COMPILE = "compile it now, in the thread of the call"
    SERVE = "calls go to the program"
    PAUSE = "calls go to straight-line code; the program is retained"
    DISCARD = "calls go to straight-line code; the program is discarded"


Table: TypeAlias = "dict[tuple[State, Event], tuple[State, Action]]"

_S, _E, _A = State, Event, Action

PAUSED: Final = frozenset({_S.AWAITING_IDLE, _S.BACKING_OFF, _S.TRIAL_SUSPENDED, _S.SUSPENDED})
"""Straight-line code serves, while the program is retained for later."""
SERVED_COMPILED: Final = frozenset({_S.TRIAL, _S.COMPILED})
"""The program serves."""
HAS_PROGRAM: Final = (
    *(_S.TRIAL, _S.COMPILED),
    *(_S.AWAITING_IDLE, _S.BACKING_OFF, _S.TRIAL_SUSPENDED, _S.SUSPENDED),
)
"""There is a program."""

TRANSITIONS: Final[Table] = {
    (_S.NEW, _E.ELIGIBLE): (_S.COUNTING, _A.KEEP),
    (_S.NEW, _E.DUE_IMMEDIATELY): (_S.COMPILING, _A.COMPILE),
    (_S.NEW, _E.NOT_ELIGIBLE): (_S.NOT_COMPILABLE, _A.KEEP),
    (_S.NEW, _E.TABLE_FULL): (_S.NO_SLOT, _A.KEEP),
    (_S.NEW, _E.PROGRAM_READY): (_S.TRIAL, _A.SERVE),
    (_S.COUNTING, _E.CALLED_OFTEN): (_S.QUEUED, _A.SUBMIT),
    (_S.NO_SLOT, _E.SLOT_WON): (_S.QUEUED, _A.SUBMIT),
    # Or no thread could be started. It is submitted again after a number of calls.
    (_S.QUEUED, _E.QUEUE_FULL): (_S.COUNTING, _A.KEEP),
    (_S.QUEUED, _E.COMPILATION_STARTED): (_S.COMPILING, _A.KEEP),
    (_S.COMPILING, _E.PROGRAM_READY): (_S.TRIAL, _A.SERVE),
    (_S.COMPILING, _E.TRACING_REFUSED): (_S.NOT_TRACEABLE, _A.KEEP),
    (_S.COMPILING, _E.COMPILER_RAISED): (_S.COMPILER_FAILED, _A.KEEP),
    (_S.COMPILING, _E.REPLACED): (_S.SUPERSEDED, _A.KEEP),
    (_S.TRIAL, _E.WON): (_S.COMPILED, _A.KEEP),
    (_S.TRIAL, _E.LOST_WHILE_COMPILING): (_S.AWAITING_IDLE, _A.PAUSE),
    (_S.TRIAL, _E.LOST): (_S.BACKING_OFF, _A.PAUSE),
    (_S.TRIAL, _E.LOST_LAST): (_S.SLOWER, _A.DISCARD),
    (_S.TRIAL, _E.CHECKS_FAIL): (_S.TRIAL_SUSPENDED, _A.PAUSE),
    (_S.COMPILED, _E.CHECKS_FAIL): (_S.SUSPENDED, _A.PAUSE),
    (_S.AWAITING_IDLE, _E.PAUSE_ENDED): (_S.TRIAL, _A.SERVE),
    (_S.BACKING_OFF, _E.PAUSE_ENDED): (_S.TRIAL, _A.SERVE),
    (_S.TRIAL_SUSPENDED, _E.PAUSE_ENDED): (_S.TRIAL, _A.SERVE),
    (_S.SUSPENDED, _E.PAUSE_ENDED): (_S.COMPILED, _A.SERVE),
    # The program of another signature turned out to serve these inputs.
    (_S.COUNTING, _E.PROGRAM_READY): (_S.TRIAL, _A.SERVE),
    (_S.NO_SLOT, _E.PROGRAM_READY): (_S.TRIAL, _A.SERVE),
    (_S.QUEUED, _E.PROGRAM_READY): (_S.TRIAL, _A.SERVE),
    # More inputs must be static than it has, so it is never looked up again.
    (_S.COUNTING, _E.REPLACED): (_S.SUPERSEDED, _A.KEEP),
    # The child of a fork has lost the queue of the background compiler: the next call submits the
    # signature again.
    (_S.QUEUED, _E.COMPILATION_LOST): (_S.COUNTING, _A.KEEP),
    (_S.COMPILING, _E.COMPILATION_LOST): (_S.COUNTING, _A.KEEP),
    # If JAX cannot be used in the child, nothing is compiled.
    **{
        (state, _E.COMPILER_LOST): (_S.NOT_COMPILABLE, _A.KEEP)
        for state in (_S.COUNTING, _S.NO_SLOT, _S.QUEUED, _S.COMPILING)
    },
    **{(state, _E.COMPILER_LOST): (_S.NOT_COMPILABLE, _A.DISCARD) for state in HAS_PROGRAM},
    **{(state, _E.REPLACED): (_S.SUPERSEDED, _A.DISCARD) for state in HAS_PROGRAM},
    **{(state, _E.PROGRAM_RAISED): (_S.PROGRAM_FAILED, _A.DISCARD) for state in HAS_PROGRAM},
    (_S.COUNTING, _E.SLOT_LOST): (_S.EVICTED, _A.KEEP),
    **{(state, _E.SLOT_LOST): (_S.EVICTED, _A.DISCARD) for state in HAS_PROGRAM},
}

COUNTS_CALLS: Final = frozenset({_S.COUNTING, _S.NO_SLOT}) | PAUSED
"""The next event comes after a number of interpreted calls."""
FINAL: Final = frozenset(State) - {state for state, _ in TRANSITIONS}
"""No transition leaves it."""
HOLDS_SLOT: Final = frozenset(State) - {
    *(_S.NEW, _S.NO_SLOT, _S.NOT_COMPILABLE, _S.SUPERSEDED, _S.EVICTED),
}
"""It counts as one of the signatures that may be compiled, even after that has failed."""
MEASURED: Final = frozenset(
    {
        *(_S.COUNTING, _S.NO_SLOT, _S.QUEUED, _S.COMPILING, _S.TRIAL),
        *(_S.AWAITING_IDLE, _S.BACKING_OFF, _S.TRIAL_SUSPENDED),
    }
)
"""Its calls are timed, for a running or a later trial."""


class Meaning(NamedTuple):
    """The properties of a state: whether it is in each of the sets above."""

    is_served_compiled: bool
    counts_calls: bool
    holds_slot: bool
    is_measured: bool


MEANING: Final = {
    state: Meaning(
        state in SERVED_COMPILED, state in COUNTS_CALLS, state in HOLDS_SLOT, state in MEASURED
    )
    for state in State
}
