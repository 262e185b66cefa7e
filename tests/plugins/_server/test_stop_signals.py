"""Signals end the wait of a command whenever they arrive."""

from __future__ import annotations

import select
import signal
from typing import Any

import pytest

from graphmill_plugins._server.stop_signals import stop_signal

NUMBERS = (signal.SIGTERM, signal.SIGINT)


@pytest.mark.parametrize("number", NUMBERS)
def test_signal_before_the_wait_ends_it(number: signal.Signals) -> None:
    with stop_signal() as stop:
        signal.raise_signal(number)
        stop.wait()
        assert signal.getsignal(number) is signal.SIG_DFL


def test_signal_just_before_the_thread_blocks_wakes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal just before the thread blocks, after it checked the flag, wakes it."""
    blocked = select.select

    def signalled(*arguments: Any) -> Any:
        monkeypatch.setattr(select, "select", blocked)
        signal.raise_signal(signal.SIGTERM)
        return blocked(*arguments)

    monkeypatch.setattr(select, "select", signalled)
    with stop_signal() as stop:
        stop.wait()


def test_other_signals_do_not_end_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: seen.append(number))
    blocked = select.select

    def terminated(*arguments: Any) -> Any:
        monkeypatch.setattr(select, "select", blocked)
        found = blocked(*arguments)
        signal.raise_signal(signal.SIGTERM)
        return found

    monkeypatch.setattr(select, "select", terminated)
    try:
        with stop_signal() as stop:
            signal.raise_signal(signal.SIGUSR1)
            stop.wait()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen == [signal.SIGUSR1]


def test_handlers_are_restored() -> None:
    before = [signal.getsignal(number) for number in NUMBERS]
    with stop_signal():
        assert [signal.getsignal(number) for number in NUMBERS] != before
    assert [signal.getsignal(number) for number in NUMBERS] == before
    assert signal.set_wakeup_fd(-1) == -1
