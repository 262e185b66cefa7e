"""Call a function for each call of a thread, as profilers do, during a block."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from graphmill.runtime.process import effects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    Watch = Callable[[FrameType, str, Any], None]


@contextmanager
def calls_watched(watch: Watch) -> Iterator[None]:
    """Call `watch` as `sys.setprofile` specifies, in this thread, until the block has ended.

    A nested block replaces the outer one while it runs; a profiler of the user is left in place.
    """
    before = sys.getprofile()
    is_users = before is not None and getattr(before, "__module__", "") != watch.__module__
    if is_users or not effects.PROFILE_HOOK.is_enabled:
        yield
        return
    sys.setprofile(watch)
    try:
        yield
    finally:
        sys.setprofile(before)
