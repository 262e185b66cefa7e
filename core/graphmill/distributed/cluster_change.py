"""`ClusterChange`: the tasks of a cluster that moved or restarted, and observers of changes."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Task: TypeAlias = "tuple[str, int]"
"""The job and the index of a task, such as `("worker", 0)`."""

_logger = logging.getLogger("graphmill.distributed")


@dataclass(frozen=True, slots=True)
class ClusterChange:
    """A change of a cluster.

    Attributes:
        cluster: the new addresses of all tasks, by job and task index.
        tasks: the tasks that have a new address, or a new incarnation at the old one.
        removed: the tasks that no longer exist.
    """

    cluster: Mapping[str, Mapping[int, str]]
    tasks: frozenset[Task]
    removed: frozenset[Task] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.tasks or self.removed)


def change_between(
    before: Mapping[str, Mapping[int, str]],
    after: Mapping[str, Mapping[int, str]],
    restarted: Iterable[Task] = (),
) -> ClusterChange:
    """Return the change from one cluster to another.

    Args:
        before, after: the addresses by job and task index.
        restarted: tasks that have a new incarnation at an unchanged address.
    """
    old, new = _by_task(before), _by_task(after)
    moved = {task for task, address in new.items() if old.get(task) != address}
    tasks = moved | (set(restarted) & set(new))
    copy = {job: dict(addresses) for job, addresses in after.items()}
    return ClusterChange(copy, frozenset(tasks), frozenset(set(old) - set(new)))


def _by_task(cluster: Mapping[str, Mapping[int, str]]) -> dict[Task, str]:
    return {
        (job, index): address for job, tasks in cluster.items() for index, address in tasks.items()
    }


class Watchers:
    """The observers of a cluster's changes.

    Threads: any may add and publish; `_lock` guards the table, and `_order` orders the changes.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._order = threading.RLock()
        self._watchers: dict[object, Callable[[ClusterChange], None]] = {}

    def __len__(self) -> int:
        return len(self._watchers)

    def add(self, changed: Callable[[ClusterChange], None]) -> Callable[[], None]:
        """Add a function; return a function that removes it and may be called twice."""
        key = object()
        with self._lock:
            self._watchers[key] = changed

        def remove() -> None:
            with self._lock:
                self._watchers.pop(key, None)

        return remove

    def publish(self, change: ClusterChange) -> None:
        """Notify all observers of a change; log exceptions of observers, and continue."""
        if not change:
            return
        with self._order:
            with self._lock:
                watchers = list(self._watchers.values())
            for changed in watchers:
                try:
                    changed(change)
                except Exception:
                    _logger.exception("an observer of the cluster failed on %s", change)
