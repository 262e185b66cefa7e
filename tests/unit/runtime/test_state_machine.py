"""State machines: table transitions, unexpected events, bounded histories."""

from __future__ import annotations

import pytest

from graphmill.errors import InternalError
from graphmill.runtime.checks.validation import VALIDATE_VARIABLE
from graphmill.runtime.state_machine import Label, StateMachine, Transition, TransitionHistory


class Door(Label):
    OPEN = "open"
    SHUT = "shut"


class Push(Label):
    PULL = "pull"
    PUSH = "push"


class Sound(Label):
    NONE = "none"
    BANG = "bang"


TABLE = {
    (Door.OPEN, Push.PUSH): (Door.SHUT, Sound.BANG),
    (Door.SHUT, Push.PULL): (Door.OPEN, Sound.NONE),
}


def door(history: TransitionHistory) -> StateMachine[Door, Push, Sound]:
    return StateMachine(TABLE, Door.OPEN, history, "the door")


def test_an_event_changes_the_state_and_returns_the_action() -> None:
    made = door(TransitionHistory())
    assert made.send(Push.PUSH, "the wind") is Sound.BANG
    assert made.state is Door.SHUT


def test_history_lists_transitions_with_causes() -> None:
    history = TransitionHistory()
    made = door(history)
    made.send(Push.PUSH, "the wind")
    made.send(Push.PULL)
    assert history.lines() == [
        "the door: open -> shut (push): the wind",
        "the door: shut -> open (pull)",
    ]


def test_an_unexpected_event_is_an_error_in_validation_mode(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(VALIDATE_VARIABLE, "1")
    made = door(TransitionHistory())
    made.send(Push.PUSH)
    with pytest.raises(
        InternalError, match="'push' cannot happen; expected one of: 'pull'"
    ) as error:
        made.send(Push.PUSH)
    assert "the door: open -> shut (push)" in error.value.message
    assert made.state is Door.SHUT


def test_an_unexpected_event_is_warned_of_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VALIDATE_VARIABLE, raising=False)
    history = TransitionHistory()
    made = door(history)
    with pytest.warns(RuntimeWarning, match="the door is 'open', where the event 'pull' cannot"):
        assert made.send(Push.PULL) is None
    assert made.state is Door.OPEN
    assert "ignored" in str(history)


def test_history_is_bounded_and_omits_repetitions() -> None:
    history = TransitionHistory(length=3)
    for number in range(10):
        history.add(Transition(f"door {number}", "open", "push", "shut"))
        history.add(Transition(f"door {number}", "open", "push", "shut"))
    assert [one.subject for one in history.transitions()] == ["door 7", "door 8", "door 9"]
