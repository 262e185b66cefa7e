"""The memory budget: the limit of one allocation whose size depends on a value of the graph.

A kernel asks with `request_memory` before it allocates, so a small graph cannot make the process
use up the machine's memory. The limit is the session's (`graphmill.memory_budget_bytes`), else
`default_limit()`.
"""

from __future__ import annotations

import os
from functools import cache, wraps
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import ResourceExhaustedError

if TYPE_CHECKING:
    from collections.abc import Callable

_SHARE: Final = 0.8
"""Share of the memory of the machine, or of the control group, that one allocation may use."""
_UNKNOWN_MEMORY: Final = 2**40
_GROUP_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


_LIMITS: Final[dict[int, int]] = {}
"""The limit of the session whose kernels each thread runs, by the identity of the thread.

A dict, because setting a `threading.local` takes several times as long.
"""


def request_memory(nbytes: int, what: str) -> None:
    """Check that an allocation is within the memory budget, before it is made.

    Args:
        nbytes: the size of the allocation.
        what: what it is for, as a clause: "the output has 10 elements".

    Raises:
        ResourceExhaustedError: it is larger than the budget.
    """
    limit = memory_limit()
    if nbytes > limit:
        raise ResourceExhaustedError(
            f"{what}, which exceeds the memory budget: {nbytes} bytes are requested, the limit is "
            f"{limit} (graphmill.memory_budget_bytes)"
        )


def memory_limit() -> int:
    """Return the maximum number of bytes of one allocation in the calling thread."""
    return _LIMITS.get(get_ident()) or default_limit()


def with_memory_limit(limit: int, compute: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls `compute` with each allocation limited to `limit` bytes."""

    @wraps(compute)
    def limited(*args: Any, **keywords: Any) -> Any:
        thread = get_ident()
        outer = _LIMITS.get(thread, 0)
        if outer == limit:  # in a kernel, since its step has set the limit
            return compute(*args, **keywords)
        _LIMITS[thread] = limit
        try:
            return compute(*args, **keywords)
        finally:
            if outer:
                _LIMITS[thread] = outer
            else:
                del _LIMITS[thread]

    return limited


def inheriting(task: Callable[[], None]) -> Callable[[], None]:
    """Return a task for another thread, with the memory limit of the calling thread."""
    limit = _LIMITS.get(get_ident(), 0)
    return with_memory_limit(limit, task) if limit else task


@cache
def default_limit() -> int:
    """Return the limit of sessions that set none: a share of the memory of this process."""
    sizes = [_memory_of_machine(), *map(_group_limit, _GROUP_LIMITS)]
    return int(_SHARE * min(sizes))


def _memory_of_machine() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return _UNKNOWN_MEMORY


def _group_limit(path: Path) -> int:
    """Return the limit of the process's control group; a terabyte without one."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # there is no such file, or it says "max"
        return _UNKNOWN_MEMORY
