"""`StateMachine`: a state, its table of transitions, and the history of events.

The table is data: each row has a state, an event, the next state and an action. So it can be
read, drawn (docs/explanation/tier-states.md) and tested directly. An event that the table does not
list is a bug of the sender: with `GRAPHMILL_VALIDATE=1` it raises an error; otherwise it changes
nothing, and is reported by a warning and in the history.
"""

from __future__ import annotations

import warnings
from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from graphmill.errors import InternalError
from graphmill.runtime.checks.validation import is_validation_on
from graphmill.runtime.process.event_log import DEBUG, is_logged, log_event

if TYPE_CHECKING:
    from collections.abc import Mapping


class Label(Enum):
    """A state, an event or an action; its value is the text for messages.

    A table lookup happens for each new input shape of a cluster, so members are hashed by identity,
    and their text is a plain attribute: both are slow for other enums.

    Attributes:
        text: the value.
    """

    __hash__ = object.__hash__

    def __init__(self, text: str) -> None:
        self.text = text


State = TypeVar("State", bound=Label)
Event = TypeVar("Event", bound=Label)
Action = TypeVar("Action", bound=Label)

HISTORY_LENGTH: Final = 48
"""The number of transitions that a history stores by default."""


class Transition(NamedTuple):
    """One change of state.

    Attributes:
        subject: the name of the state machine's owner, such as a signature or a graph.
        before, after: the names of the states.
        event: what happened.
        cause: the reason, as text; empty if the event itself is the reason.
    """

    subject: str
    before: str
    event: str
    after: str
    cause: str = ""

    def __str__(self) -> str:
        text = f"{self.subject}: {self.before} -> {self.after} ({self.event})"
        return f"{text}: {self.cause}" if self.cause else text


class TransitionHistory:
    """The latest transitions of some machines, oldest first; consecutive equal ones count once.

    Threads: any may add and read.

    Args:
        length: the maximum number of transitions.
        owner: what the machines belong to, such as a cluster, in the log `graphmill.jit`.
    """

    __slots__ = ("_owner", "_transitions")

    def __init__(self, length: int = HISTORY_LENGTH, owner: str = "") -> None:
        self._transitions: deque[Transition] = deque(maxlen=length)
        self._owner = owner

    def add(self, transition: Transition) -> None:
        """Add a transition; the oldest one is dropped if there are too many."""
        transitions = self._transitions
        if not transitions or transitions[-1] != transition:
            transitions.append(transition)
            if is_logged("jit", DEBUG):
                fields = {"owner": self._owner} if self._owner else {}
                log_event("jit", DEBUG, "state changed", **fields, **transition._asdict())

    def transitions(self) -> list[Transition]:
        """Return the stored transitions, oldest first."""
        return list(self._transitions)

    def lines(self) -> list[str]:
        """Return a line for each transition, oldest first."""
        return [str(transition) for transition in self.transitions()]

    def __str__(self) -> str:
        return "\n".join(self.lines())


class StateMachine(Generic[State, Event, Action]):
    """The state of one object, with its transition table.

    Threads: not synchronized; senders of events hold the lock that guards the state.

    Args:
        table: the next state and the action, by state and event.
        state: the first state.
        history: records the transitions.

    Attributes:
        state: the current state.
        subject: the name of the object in the history.
    """

    __slots__ = ("_history", "_table", "state", "subject")

    def __init__(
        self,
        table: Mapping[tuple[State, Event], tuple[State, Action]],
        state: State,
        history: TransitionHistory,
        subject: str = "",
    ) -> None:
        self._table = table
        self._history = history
        self.state = state
        self.subject = subject

    def send(self, event: Event, cause: str = "") -> Action | None:
        """Handle an event; return the action, or None if the table has no such row.

        Args:
            event: what happened.
            cause: why, for the history.

        Raises:
            InternalError: the table has no such row, and validation mode is on.
        """
        row = self._table.get((self.state, event))
        if row is None:
            self._note(event, self.state, f"ignored, as it is not expected here. {cause}".rstrip())
            if is_validation_on():
                raise InternalError(self._unexpected_event(event))
            warnings.warn(self._unexpected_event(event), RuntimeWarning, stacklevel=2)
            return None
        after, action = row
        self._note(event, after, cause)
        self.state = after
        return action

    def _note(self, event: Event, after: State, cause: str) -> None:
        before = self.state.text
        self._history.add(Transition(self.subject, before, event.text, after.text, cause))

    def _unexpected_event(self, event: Event) -> str:
        expected = [event.text for state, event in self._table if state is self.state]
        return (
            f"{self.subject or 'a state machine'} is {self.state.text!r}, where the event "
            f"{event.text!r} cannot happen; expected one of: "
            f"{', '.join(map(repr, expected)) or 'none, as the state is final'}. What happened "
            f"before:\n{self._history}"
        )
