"""`check_cancelled`: end a kernel that takes long when its step is cancelled.

A step ends between two nodes when it is cancelled: past its deadline, after the error of another
node, or because its session is closed. A kernel whose time depends on values, or grows faster than
its inputs, calls `check_cancelled` in its loops (or iterates over `cancellable`), so that it ends
soon, too. This needs no context, so that kernels that compilers trace can do it.
"""

from __future__ import annotations

from contextlib import contextmanager
from threading import get_ident
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from graphmill.errors import CancelledError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_T = TypeVar("_T")


class Stoppable(Protocol):
    """A run of an executor, or what cancels one."""

    @property
    def is_cancelled(self) -> bool:
        """Whether it has been cancelled."""
        ...


RUNNING: Final[dict[int, Stoppable]] = {}
"""The step whose kernels each thread runs, by the identity of the thread.

A dict, because steps are short: setting a `threading.local` or `ContextVar` takes three times as
long.
"""


def check_cancelled() -> None:
    """Check that the step of the calling kernel has not been cancelled.

    A call takes a tenth of a microsecond. Outside of steps, as while a compiler traces a kernel,
    nothing happens.

    Raises:
        CancelledError: it was; the executor replaces it by the reason, such as a deadline.
    """
    step = RUNNING.get(get_ident())
    if step is not None and step.is_cancelled:
        raise CancelledError("the step was cancelled while a kernel was running")


def cancellable(items: Iterable[_T], interval: int = 1024) -> Iterator[_T]:
    """Iterate over items, and check before every `interval`th one that the step goes on.

    Raises:
        CancelledError: the step was cancelled.
    """
    left = 0
    for item in items:
        if not left:
            check_cancelled()
            left = interval
        left -= 1
        yield item


@contextmanager
def running(step: Stoppable) -> Iterator[None]:
    """Declare that the kernels that the calling thread runs in a `with` block belong to a step."""
    thread = get_ident()
    outer = RUNNING.get(thread)
    RUNNING[thread] = step
    try:
        yield
    finally:
        leave(thread, outer)


def leave(thread: int, outer: Stoppable | None) -> None:
    """Declare that a thread runs the kernels of an outer step again, or of none."""
    if outer is None:
        del RUNNING[thread]
    else:
        RUNNING[thread] = outer
