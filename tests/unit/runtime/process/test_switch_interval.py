"""The switch interval is low exactly while a background thread runs."""

from __future__ import annotations

import sys
import threading

from graphmill.runtime.process.switch_interval import LowSwitchInterval
from graphmill.runtime.threads.background_jobs import BackgroundWork


def test_switch_interval_is_low_until_the_last_block_ends() -> None:
    interval, before = LowSwitchInterval(), sys.getswitchinterval()
    with interval:
        with interval:
            assert sys.getswitchinterval() < before
        assert sys.getswitchinterval() < before
    assert sys.getswitchinterval() == before


def test_switch_interval_that_the_program_sets_is_kept() -> None:
    interval, before = LowSwitchInterval(), sys.getswitchinterval()
    with interval:
        sys.setswitchinterval(0.004)
    assert sys.getswitchinterval() == 0.004
    sys.setswitchinterval(before)


def test_background_work_lowers_the_switch_interval() -> None:
    work, seen, before = BackgroundWork(), [], sys.getswitchinterval()
    work.submit(None, lambda: seen.append((sys.getswitchinterval(), threading.current_thread())))
    assert work.wait_idle(30)
    seen[0][1].join(30)
    assert seen[0][0] < before
    assert sys.getswitchinterval() == before
