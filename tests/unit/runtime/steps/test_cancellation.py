"""Cancellation of steps and sessions (clause E13)."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from graphmill import errors
from graphmill.runtime.steps.cancellation import CancellationManager

if TYPE_CHECKING:
    import pytest

REASON = errors.CancelledError("because")


def test_e13_callbacks_are_called_once() -> None:
    manager = CancellationManager()
    calls: list[str] = []
    manager.register(lambda: calls.append("a"))
    manager.register(lambda: calls.append("b"))
    manager.start_cancel(REASON)
    manager.start_cancel(errors.AbortedError("later"))
    assert calls == ["a", "b"]
    assert manager.is_cancelled
    assert manager.reason is REASON


def test_e13_a_callback_that_was_withdrawn_is_not_called() -> None:
    manager = CancellationManager()
    calls: list[str] = []
    token = manager.register(lambda: calls.append("a"))
    assert manager.deregister(token)
    assert not manager.deregister(token)
    assert not manager.deregister(None)
    manager.start_cancel()
    assert calls == []


def test_e13_it_is_too_late_to_register_after_cancellation() -> None:
    manager = CancellationManager()
    manager.start_cancel()
    assert manager.register(lambda: None) is None


def test_e13_children_are_cancelled_with_their_parent() -> None:
    parent = CancellationManager()
    child = CancellationManager(parent)
    parent.start_cancel(REASON)
    assert child.is_cancelled
    assert child.reason is REASON


def test_e13_a_parent_is_not_cancelled_with_its_child() -> None:
    parent = CancellationManager()
    child, other = CancellationManager(parent), CancellationManager(parent)
    child.start_cancel(REASON)
    assert not parent.is_cancelled
    assert not other.is_cancelled


def test_e13_child_of_cancelled_manager_is_cancelled() -> None:
    parent = CancellationManager()
    parent.start_cancel(REASON)
    child = CancellationManager(parent)
    assert child.is_cancelled
    assert child.reason is REASON


def test_e13_parent_releases_finished_children() -> None:
    parent = CancellationManager()
    child = CancellationManager(parent)
    child.close()
    child.close()
    assert parent._callbacks == {}
    parent.start_cancel()
    assert not child.is_cancelled


def test_e13_raising_callback_does_not_stop_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    manager = CancellationManager()
    calls: list[str] = []

    def fail() -> None:
        raise ValueError("wrong")

    manager.register(fail)
    manager.register(lambda: calls.append("told"))
    with caplog.at_level(logging.ERROR, "graphmill.runtime"):
        manager.start_cancel()
    assert calls == ["told"]
    assert "ValueError: wrong" in caplog.text


def test_e13_callbacks_may_use_the_manager() -> None:
    """Callbacks may use the manager, because they are called outside of its lock."""
    manager = CancellationManager()
    seen: list[object] = []
    token = manager.register(
        lambda: seen.extend((manager.register(lambda: None), manager.deregister(token)))
    )
    manager.start_cancel()
    assert seen == [None, False]


def test_e13_of_racing_cancellations_one_calls() -> None:
    manager = CancellationManager()
    calls: list[int] = []
    manager.register(lambda: calls.append(threading.get_ident()))
    barrier = threading.Barrier(4)

    def work() -> None:
        barrier.wait()
        manager.start_cancel()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
