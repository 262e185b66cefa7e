"""SIGINT is delivered when the block has ended."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

import pytest

from graphmill.runtime.process.defer_sigint import DeferredInterrupt

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _handler(interruptible: None) -> Iterator[None]:
    del interruptible
    before = signal.getsignal(signal.SIGINT)
    yield
    assert signal.getsignal(signal.SIGINT) is before


def interrupted_block(done: list[str], error: Exception | None = None) -> None:
    with DeferredInterrupt():
        signal.raise_signal(signal.SIGINT)
        done.append("the rest of the block")
        if error is not None:
            raise error
    done.append("what comes after it")


def test_interrupt_is_deferred_to_the_end_of_the_block() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        interrupted_block(done)
    assert done == ["the rest of the block"]


def test_error_in_the_block_is_the_context_of_the_interrupt() -> None:
    error = ValueError("bad")
    with pytest.raises(KeyboardInterrupt) as caught:
        interrupted_block([], error)
    assert caught.value.__context__ is error


def test_deferral_may_be_nested() -> None:
    done: list[str] = []
    with pytest.raises(KeyboardInterrupt), DeferredInterrupt():
        interrupted_block(done)
    assert done == ["the rest of the block", "what comes after it"]


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_signal_that_python_does_not_handle_is_left_alone(handler: signal.Handlers) -> None:
    before = signal.signal(signal.SIGINT, handler)
    try:
        with DeferredInterrupt():
            assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_deferral_changes_nothing_in_other_threads() -> None:
    found = []

    def block() -> None:
        with DeferredInterrupt():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=block)
    thread.start()
    thread.join()
    assert found == [signal.getsignal(signal.SIGINT)]
