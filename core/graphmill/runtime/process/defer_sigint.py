"""Defer SIGINT over a block that must run completely or not at all.

Python raises `KeyboardInterrupt` in the main thread, between any two of its instructions. That is
right for most of a step. But a program that has overwritten the memory of a variable must also
update the variable. `signal.pthread_sigmask` does not help: the system then delivers the signal to
another thread, and Python handles it in the main thread nevertheless.
"""

from __future__ import annotations

# `signal` wraps this module: its functions convert numbers to enums, which takes ten times as long.
import _signal  # type: ignore[import-not-found]
import threading
from typing import TYPE_CHECKING, Any, Final, Self

from graphmill.runtime.process import effects

if TYPE_CHECKING:
    from types import FrameType

_SIGINT: Final[int] = _signal.SIGINT


class DeferredInterrupt:
    """A context that delivers SIGINT only once the block has ended.

    For short blocks that do not wait for anything. Only the main thread receives SIGINT; in any
    other thread the context costs one comparison.

    Args:
        is_forceful_twice: whether a second signal in the block is delivered at once, for a block
            that may take long and can be given up.
    """

    __slots__ = ("_handler", "_is_forceful_twice", "_pending")

    def __init__(self, *, is_forceful_twice: bool = False) -> None:
        self._is_forceful_twice = is_forceful_twice
        self._handler: Any = None
        self._pending: tuple[int, FrameType | None] | None = None

    def __enter__(self) -> Self:
        is_main = threading.get_ident() == threading.main_thread().ident
        if is_main and effects.DEFER_SIGINT.is_enabled:
            handler = _signal.getsignal(_SIGINT)
            if callable(handler):  # else it is ignored, ends the process, or is not Python's
                self._handler = handler
                _signal.signal(_SIGINT, self._defer)
        return self

    def _defer(self, number: int, frame: FrameType | None) -> None:
        if self._is_forceful_twice and self._pending is not None:
            self._pending = None
            self._handler(number, frame)
        self._pending = number, frame

    def __exit__(self, *_: object) -> None:
        if self._handler is not None:
            _signal.signal(_SIGINT, self._handler)
            if self._pending is not None:
                self._handler(*self._pending)
