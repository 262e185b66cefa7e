"""`Directory`: an actor that stores the addresses of a cluster's tasks.

Tasks and observers call `exchange` repeatedly: it passes their own address, and waits for a newer
table. So nothing is lost when the directory restarts: the next calls fill it again.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TypeAlias

Version: TypeAlias = "tuple[int, int]"
"""The start time of the directory and its number of changes; later versions compare greater."""


@dataclass(frozen=True, slots=True)
class Registration:
    """The address of a task.

    Attributes:
        job, index: which task.
        address: `HOST:PORT`.
        incarnation: a number that identifies its process.
    """

    job: str
    index: int
    address: str
    incarnation: int


@dataclass(frozen=True, slots=True)
class Table:
    """The contents of a directory.

    Attributes:
        version: the version of the table.
        jobs: the number of tasks of each job.
        tasks: the tasks that have registered their address.
    """

    version: Version
    jobs: dict[str, int]
    tasks: tuple[Registration, ...]


class Directory:
    """The addresses of a cluster's tasks.

    Threads: one event loop runs all calls.

    Args:
        jobs: the number of tasks of each job.
    """

    def __init__(self, jobs: dict[str, int]) -> None:
        self._jobs = jobs
        self._began = time.time_ns()
        self._changes = 0
        self._tasks: dict[tuple[str, int], Registration] = {}
        self._changed = asyncio.Condition()

    async def exchange(
        self, mine: Registration | None, seen: Version | None, seconds: float
    ) -> Table | None:
        """Register the caller's address, and return the table when it is newer than the caller's.

        Args:
            mine: the registration of the caller's task; None for an observer.
            seen: the version that the caller has.
            seconds: how long to wait for a newer one.

        Returns:
            None if there is no newer table in that time.
        """
        async with self._changed:
            if mine is not None and self._tasks.get((mine.job, mine.index)) != mine:
                self._tasks[mine.job, mine.index] = mine
                self._changes += 1
                self._changed.notify_all()
            try:
                async with asyncio.timeout(seconds):
                    await self._changed.wait_for(lambda: self._version != seen)
            except TimeoutError:
                return None
            return Table(self._version, self._jobs, tuple(self._tasks.values()))

    @property
    def _version(self) -> Version:
        return self._began, self._changes
