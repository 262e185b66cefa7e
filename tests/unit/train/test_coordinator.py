"""A `Coordinator` ends threads together and reports the first error."""

from __future__ import annotations

import threading

import pytest

from graphmill import errors
from graphmill.train import Coordinator


def test_join_raises_the_first_error() -> None:
    coordinator = Coordinator()

    def work() -> None:
        with coordinator.stop_on_exception():
            raise ValueError("first")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    coordinator.request_stop(ValueError("second"))
    with pytest.raises(ValueError, match="first"):
        coordinator.join([thread])
    assert coordinator.joined


def test_end_of_input_is_a_clean_stop() -> None:
    coordinator = Coordinator()
    with coordinator.stop_on_exception():
        raise errors.OutOfRangeError("the end")
    assert coordinator.should_stop()
    coordinator.join([])


def test_threads_that_do_not_end_are_named() -> None:
    coordinator, end = Coordinator(), threading.Event()
    thread = threading.Thread(target=end.wait, name="endless", daemon=True)
    thread.start()
    coordinator.register_thread(thread)
    coordinator.request_stop()
    with pytest.raises(errors.DeadlineExceededError, match="still running: endless"):
        coordinator.join(stop_grace_period_secs=0.01)
    coordinator.join(stop_grace_period_secs=0.01, ignore_live_threads=True)
    end.set()
    thread.join()


def test_cleared_coordinator_can_be_used_again() -> None:
    coordinator = Coordinator()
    coordinator.request_stop(ValueError("old"))
    coordinator.clear_stop()
    assert not coordinator.wait_for_stop(0)
    coordinator.join([])
