"""Set the resource limits of an isolated process."""

from __future__ import annotations

import math
import os
from contextlib import suppress
from typing import Final

try:
    import resource
except ImportError:  # Windows, where nothing is isolated
    resource = None  # type: ignore[assignment]

_PROCESSES: Final = "/proc"
_CPU_FIELDS: Final = slice(11, 13)
"""utime and stime in /proc/PID/stat, counted from the field after the name."""


def limit_own_resources(memory_bytes: int, file_bytes: int, open_files: int, threads: int) -> None:
    """Limit private memory, the size of files, open files and threads of this process.

    Raises:
        OSError: a limit is above the hard limit that the process has already.
    """
    _limit(resource.RLIMIT_DATA, memory_bytes)
    _limit(resource.RLIMIT_FSIZE, file_bytes)
    _limit(resource.RLIMIT_NOFILE, open_files)
    _limit(resource.RLIMIT_CORE, 0)
    # The system counts all tasks of the user, and exempts root.
    _limit(resource.RLIMIT_NPROC, tasks_of_user() + threads)


def limit_cpu_time(pid: int, seconds: float) -> None:
    """Limit the further processor time of another process; the system then ends it.

    Raises:
        ProcessLookupError: there is no such process.
        OSError: the limit cannot be set.
    """
    _, hard = resource.prlimit(pid, resource.RLIMIT_CPU)
    soft = math.ceil(cpu_seconds(pid) + seconds)
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    resource.prlimit(pid, resource.RLIMIT_CPU, (soft, hard))


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used.

    Raises:
        ProcessLookupError: there is no such process.
    """
    try:
        with open(f"{_PROCESSES}/{pid}/stat", "rb") as file:  # noqa: PTH123
            fields = file.read().rpartition(b")")[2].split()
    except FileNotFoundError:
        raise ProcessLookupError(f"no process {pid}") from None
    return sum(map(int, fields[_CPU_FIELDS])) / os.sysconf("SC_CLK_TCK")


def tasks_of_user() -> int:
    """Return the number of threads of all processes of this user."""
    count = 0
    user = os.getuid()
    for name in filter(str.isdigit, os.listdir(_PROCESSES)):  # noqa: PTH208 - names
        folder = f"{_PROCESSES}/{name}"
        with suppress(OSError):  # it may have ended
            if os.stat(folder).st_uid == user:  # noqa: PTH116 - texts
                count += len(os.listdir(f"{folder}/task"))  # noqa: PTH208
    return count


def _limit(kind: int, value: int) -> None:
    """Set both limits, the hard one too, so that they cannot be raised again."""
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))
