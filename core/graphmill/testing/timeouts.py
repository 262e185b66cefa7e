"""Fail tests whose calls hang or whose threads leak."""

from __future__ import annotations

import re
import sys
import threading
import traceback
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from graphmill.deprecations import renamed_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_T = TypeVar("_T")

TIMEOUT = 30.0
"""Seconds after which a call counts as hanging; calls of the suites take less than a tenth."""
_SHARED = re.compile(r"graphmill-(\d+|helper|deadlines)")  # threads shared by all sessions


def within(call: Callable[[], _T], what: str, seconds: float = TIMEOUT) -> _T:
    """Run `call` in a thread with a timeout; return its result or raise its exception.

    Args:
        call: the function that may hang.
        what: a description of the call, for the message.
        seconds: the timeout.

    Raises:
        AssertionError: the call did not end; the message has its stack.
    """
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append((call(), None))
        except BaseException as error:  # noqa: BLE001 - re-raised in the caller's thread
            outcome.append((None, error))

    thread = threading.Thread(target=run, daemon=True, name="graphmill test")
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - as in faulthandler
        stack = "".join(traceback.format_stack(frame)[-4:]) if frame else ""
        raise AssertionError(f"{what}: did not end within {seconds:g} s. It is blocked at\n{stack}")
    result, error = outcome[0]
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]


@contextmanager
def no_leaked_threads(*, but: tuple[str, ...] = (), seconds: float = TIMEOUT) -> Iterator[None]:
    """Assert that all threads started in the block end soon after it.

    Threads are compared by identity instead of counted, because an older thread may end meanwhile.
    A thread that is about to end, such as a cancelled timer or a dropped compilation, gets time to
    do so. Threads that serve all sessions may remain.

    Args:
        but: prefixes of the names of other threads that may remain.
        seconds: how long to wait for each thread.

    Raises:
        AssertionError: a thread did not end; the message names it.
    """
    before = set(threading.enumerate())
    yield
    started = [thread for thread in threading.enumerate() if thread not in before]
    for thread in started:
        if not (_SHARED.fullmatch(thread.name) or thread.name.startswith(but)):
            thread.join(seconds)
            assert not thread.is_alive(), f"the thread '{thread.name}' did not end"


def __getattr__(name: str) -> Any:
    """Resolve old names of this module."""
    return renamed_name(__name__, name)
