"""Wait for what may never come: a call that hangs fails its test, and tells where it stands."""

from __future__ import annotations

import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")

PATIENCE = 30.0
"""Seconds after which a call counts as hanging; none of the kit's takes a tenth of that."""


def within(call: Callable[[], _T], what: str, seconds: float = PATIENCE) -> _T:
    """Return what `call` returns, or raise what it raises; it runs in a thread of its own.

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
