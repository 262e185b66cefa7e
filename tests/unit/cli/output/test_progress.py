"""Progress is shown on stderr for slow stages only."""

from __future__ import annotations

import sys
import threading

import pytest

from graphmill.cli.output import progress


def test_quick_stage_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.stage("reading", delay=60):
        pass
    assert capsys.readouterr() == ("", "")


def test_slow_stage_is_announced_at_start_and_end(capsys: pytest.CaptureFixture[str]) -> None:
    display = progress._Display("reading")
    display.start()
    display.stop()
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("graphmill: reading …\ngraphmill: reading: done after ")


def test_slow_stage_that_fails_is_not_done(capsys: pytest.CaptureFixture[str]) -> None:
    shown = threading.Event()

    def waits() -> list[str]:
        shown.set()
        return []

    def fail() -> None:
        with progress.stage("reading", waits, delay=0):
            assert shown.wait(60)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert "graphmill: reading: failed after " in capsys.readouterr().err


def test_display_started_after_the_end_prints_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    display = progress._Display("reading")
    display.stop()
    display.start()
    assert capsys.readouterr().err == ""


def test_terminal_shows_a_spinner_and_erases_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    display = progress._Display("reading")
    display.start()
    display.stop()
    assert "done after" not in capsys.readouterr().err


def test_the_thread_of_a_stage_ends_with_it() -> None:
    before = set(threading.enumerate())
    with progress.stage("reading", delay=60):
        new = set(threading.enumerate()) - before
        (thread,) = (thread for thread in new if thread.name == "graphmill-progress")
    assert not thread.is_alive()


def test_waits_of_a_stage_are_shown_when_they_change(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = threading.Event()
    answers = iter([["node 'a' waits"], ["node 'a' waits"], ["node 'b' waits"]])

    def waits() -> list[str]:
        answer = next(answers, None)
        if answer is None:
            asked.set()
            return []
        return answer

    with progress.stage("running", waits, delay=0, interval=0):
        assert asked.wait(60)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:-1] == [
        "graphmill: running …",
        "graphmill: running: node 'a' waits",
        "graphmill: running: node 'b' waits",
    ]
    assert lines[-1].startswith("graphmill: running: done after")


def test_a_terminal_shows_what_a_stage_waits_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    display = progress._Display("running", lambda: ["a [node] waits"])
    display.start()
    assert r"a \[node] waits" in display._status.status
    display.stop()
    assert "done after" not in capsys.readouterr().err
