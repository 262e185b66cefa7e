"""The nodes in a cluster with the times that XLA's profiler has measured.

A node that calls functions has the sum of the times of its nodes. Operations may run at the same
time, and measuring takes time itself, so the sum of all may be more or less than the time of the
cluster; the nodes are shown one after another, from the start of the cluster.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from graphmill.explain.cluster_members import Shares

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from graphmill.explain.cluster_members import Member
    from graphmill.runtime.steps.step_stats import MeasuredTime, NodeStats, TimedRun


def measured_times(
    whole: TimedRun | NodeStats,
    members: Sequence[Member],
    where: str,
    iterations: Mapping[str, float],
    times: Mapping[tuple[str, ...], MeasuredTime],
) -> Iterator[NodeStats]:
    """Return the statistics of the nodes in a cluster, each with its measured time.

    Args:
        whole: the run of the cluster.
        members: its nodes.
        where: names the cluster, in the labels.
        iterations: the mean number of iterations of a run, by the body of the loop.
        times: what was measured, see `MeasuredCluster`.
    """
    measured = _MeasuredTimes(whole, where, iterations, times)
    return measured.of(members, whole.started, whole.started, 1.0)


class _MeasuredTimes(Shares):
    """Gives each member of a cluster its measured time; see `measured_times`."""

    def __init__(
        self,
        whole: TimedRun | NodeStats,
        where: str,
        iterations: Mapping[str, float],
        times: Mapping[tuple[str, ...], MeasuredTime],
    ) -> None:
        super().__init__(whole, where, iterations)
        self._times = times
        self._sums: dict[tuple[str, ...], float] = {}
        for path, time in times.items():
            for length in range(1, len(path) + 1):
                inside = path[:length]
                self._sums[inside] = self._sums.get(inside, 0.0) + time.nanoseconds

    def ends(
        self, members: Sequence[Member], begin: int, end: int, path: tuple[str, ...]
    ) -> list[int]:
        """Return when each member ends: after its measured time."""
        del end
        lengths = [self._sums.get((*path, member.name), 0.0) for member in members]
        return [begin + int(length) for length in accumulate(lengths)]

    def note_of(self, path: tuple[str, ...]) -> str:
        """Return how the time of a member was measured."""
        where = super().note_of(path)
        if path not in self._sums:
            return f"no time measured, as XLA removed it or ran it before: {where}"
        time = self._times.get(path)
        if time is None or time.num_nodes == 1:
            return f"measured by XLA's profiler: {where}"
        others = f"{time.num_nodes - 1} other node{'s' if time.num_nodes > 2 else ''}"
        return f"measured by XLA's profiler together with {others}: {where}"
