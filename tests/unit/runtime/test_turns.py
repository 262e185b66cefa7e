"""Turns are short while something works in the background, and only then."""

from __future__ import annotations

import sys
import threading

from graphmill.runtime.background import BackgroundWork
from graphmill.runtime.turns import ShortTurns


def test_turns_are_short_until_the_last_block_ends() -> None:
    turns, before = ShortTurns(), sys.getswitchinterval()
    with turns:
        with turns:
            assert sys.getswitchinterval() < before
        assert sys.getswitchinterval() < before
    assert sys.getswitchinterval() == before


def test_what_the_program_sets_meanwhile_counts() -> None:
    turns, before = ShortTurns(), sys.getswitchinterval()
    with turns:
        sys.setswitchinterval(0.004)
    assert sys.getswitchinterval() == 0.004
    sys.setswitchinterval(before)


def test_background_work_takes_short_turns() -> None:
    work, seen, before = BackgroundWork(), [], sys.getswitchinterval()
    work.submit(None, lambda: seen.append((sys.getswitchinterval(), threading.current_thread())))
    assert work.wait_idle(30)
    seen[0][1].join(30)
    assert seen[0][0] < before
    assert sys.getswitchinterval() == before
