"""`check_cancelled`: end a kernel that takes long when its step is cancelled.

A step ends between two nodes when it is cancelled: past its deadline, after the error of another
node, or because its session is closed. A kernel whose time depends on values, or grows faster than
its inputs, calls `check_cancelled` in its loops (or iterates over `cancellable`), so that it ends
soon, too. This needs no context, so that kernels that compilers trace can do it.
"""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, TypeVar

from graphmill.errors import CancelledError
from graphmill.runtime.steps.step_runner import RUNNING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_T = TypeVar("_T")


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
    """Iterate over items, and check every `interval` items whether the step was cancelled.

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
