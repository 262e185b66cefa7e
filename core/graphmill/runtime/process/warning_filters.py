"""Ignore warnings during a block, in any number of threads at once.

`warnings.catch_warnings` saves and restores filters that belong to the whole process: two threads
that enter and leave it in turn restore each other's filters, and warnings stay ignored for good. So
only the first one to enter saves them, and the last one to leave restores them.
"""

from __future__ import annotations

import sys
import threading
import warnings
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from graphmill.runtime.process import effects, fork

if TYPE_CHECKING:
    from collections.abc import Iterator


class IgnoredWarnings:
    """Counts the blocks in which warnings are ignored.

    Threads: `_lock` guards the count.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._filters = ExitStack()
        fork.track_forks(self)

    def enter(self) -> None:
        """Ignore all warnings until `leave` has been called as many times."""
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._filters.enter_context(warnings.catch_warnings())
                warnings.simplefilter("ignore")

    def leave(self) -> None:
        """Restore the filters if no other block ignores warnings."""
        with self._lock:
            self._users -= 1
            if not self._users:
                self._filters.close()

    def after_fork_in_child(self) -> None:
        """Restore the filters: the threads that ignored warnings are not in this process."""
        self._lock = threading.Lock()
        if self._users:
            self._users = 0
            self._filters.close()


_IGNORED: Final = IgnoredWarnings()


@contextmanager
def warnings_ignored() -> Iterator[None]:
    """Ignore all warnings until the block has ended."""
    if not effects.WARNING_FILTERS.is_enabled:
        yield
    elif getattr(sys.flags, "context_aware_warnings", False):  # each thread has filters of its own
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    else:
        _IGNORED.enter()
        try:
            yield
        finally:
            _IGNORED.leave()
