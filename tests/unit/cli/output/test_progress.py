"""Progress is shown on stderr for slow stages only."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

from graphmill.cli.output import progress

if TYPE_CHECKING:
    import pytest


def test_a_quick_stage_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.stage("reading", patience=60):
        pass
    assert capsys.readouterr() == ("", "")


def test_slow_stage_is_announced_at_start_and_end(capsys: pytest.CaptureFixture[str]) -> None:
    display = progress._Display("reading")
    display.start()
    display.stop()
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("graphmill: reading …\ngraphmill: reading: done after ")


def test_a_display_that_starts_after_the_end_stays_silent(
    capsys: pytest.CaptureFixture[str],
) -> None:
    display = progress._Display("reading")
    display.stop()
    display.start()
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_a_spinner_that_goes_away(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    display = progress._Display("reading")
    display.start()
    display.stop()
    assert "done after" not in capsys.readouterr().err


def test_the_timer_thread_ends_with_its_stage() -> None:
    before = set(threading.enumerate())
    with progress.stage("reading", patience=60):
        new = set(threading.enumerate()) - before
        timers = [thread for thread in new if isinstance(thread, threading.Timer)]
        assert timers
    assert not any(timer.is_alive() for timer in timers)
