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
"""Seconds after which a call counts as hanging; none of the kit's takes a tenth of that."""
_SHARED = re.compile(r"graphmill-(\d+|helper)")  # threads of all sessions


def within(call: Callable[[], _T], what: str, seconds: float = TIMEOUT) -> _T:
    """Run `call` in a thread with a timeout; return its result or raise its exception.

    Args:
        call: what may hang.
        what: what it means if it does, for the message.
        seconds: how long to wait.

    Raises:
        AssertionError: it did not end; says where it stands.
    """
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append((call(), None))
        except BaseException as error:  # noqa: BLE001 - raised again by the caller's thread
            outcome.append((None, error))

    thread = threading.Thread(target=run, daemon=True, name="graphmill kit")
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001 - what faulthandler shows
        place = "".join(traceback.format_stack(frame)[-4:]) if frame else ""
        raise AssertionError(f"{what}: no end after {seconds:g} s. It stands at\n{place}")
    result, error = outcome[0]
    if error is not None:
        raise error
    return result  # type: ignore[no-any-return]


@contextmanager
def no_leaked_threads(*, but: tuple[str, ...] = (), seconds: float = TIMEOUT) -> Iterator[None]:
    """Assert that all threads started in the block end soon after it.

    Threads are compared by identity and not counted: one of those that were there before may end
    meanwhile, and one that is about to end, as a timer that was cancelled or a compilation that is
    dropped, is still there for a moment. Those that serve all sessions may stay.

    Args:
        but: how the names of others begin that may stay.
        seconds: how long to wait.

    Raises:
        AssertionError: some are still there; names them.
    """
    before = set(threading.enumerate())
    yield
    started = [thread for thread in threading.enumerate() if thread not in before]
    for thread in started:
        if not (_SHARED.fullmatch(thread.name) or thread.name.startswith(but)):
            thread.join(seconds)
            assert not thread.is_alive(), f"the thread '{thread.name}' is still there"


def __getattr__(name: str) -> Any:
    """Resolve old names of this module."""
    return renamed_name(__name__, name)
