"""Summarize the traced steps of a report: runs and totals of nodes, memory over time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from graphmill.explain.memory import Peak, alive_bytes, peaks
from graphmill.explain.node_runs import NodeRun, lifetimes, node_runs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.explain.step_trace import StepTrace

_MAX_POINTS: Final = 2_000
"""Maximum number of points of the memory curve; more would not be visible."""
_ESTIMATE: Final = "estimate"
_TOP: Final = 25


@dataclass(slots=True)
class NodeTotal:
    """The totals of one node in a step.

    Attributes:
        node, op, device: the node.
        runs: how often it ran.
        nanoseconds: its time, without that of nodes that ran inside of it.
        num_bytes: the size of the outputs of its largest run.
        waited: how long it was ready before it ran, in nanoseconds.
        outputs: dtypes and shapes of the outputs of that run.
    """

    node: str
    op: str
    device: str
    runs: int = 0
    nanoseconds: int = 0
    num_bytes: int = 0
    waited: int = 0
    outputs: tuple[str, ...] = ()


@dataclass(slots=True)
class TracedStep:
    """A traced step.

    Attributes:
        name: how it is shown.
        slices: the runs of its nodes, ordered by start.
        totals: what each node did, by name.
        peaks: the moment of most memory on each device.
    """

    name: str
    slices: list[NodeRun]
    totals: dict[str, NodeTotal] = field(default_factory=dict)
    peaks: dict[str, Peak] = field(default_factory=dict)

    @property
    def start(self) -> int:
        """The start of its first node, in nanoseconds."""
        return self.slices[0].start

    @property
    def nanoseconds(self) -> int:
        """The time from the start of its first node to the end of its last one."""
        return max(part.end for part in self.slices) - self.start

    @property
    def node_nanoseconds(self) -> int:
        """The sum of the times of all nodes, also of those that ran at the same time."""
        return sum(total.nanoseconds for total in self.totals.values())

    def top_by_time(self, count: int = _TOP) -> list[NodeTotal]:
        """Return the nodes with the most time, the slowest first."""
        ranked = sorted(self.totals.values(), key=lambda total: -total.nanoseconds)
        return [total for total in ranked[:count] if total.nanoseconds]

    def top_by_bytes(self, count: int = _TOP) -> list[NodeTotal]:
        """Return the nodes with the largest outputs, the largest first."""
        ranked = sorted(self.totals.values(), key=lambda total: -total.num_bytes)
        return [total for total in ranked[:count] if total.num_bytes]


def traced_step(name: str, trace: StepTrace) -> TracedStep:
    """Return the summary of a traced step.

    Raises:
        InvalidArgumentError: the step has not run.
    """
    slices = node_runs(trace)
    step = TracedStep(name, slices)
    for part, nanoseconds in zip(slices, _own_times(slices), strict=True):
        if is_estimate(part):
            continue  # a share of the time of its cluster, which is counted
        total = step.totals.setdefault(part.name, NodeTotal(part.name, part.op, part.device))
        total.runs += 1
        total.nanoseconds += nanoseconds
        total.waited += max(part.start - part.scheduled, 0)
        if part.num_bytes >= total.num_bytes:
            total.num_bytes, total.outputs = part.num_bytes, part.outputs
    step.peaks = peaks(lifetimes(slices))
    return step


def is_estimate(part: NodeRun) -> bool:
    """Return whether the times of a slice are a share of its cluster's."""
    return part.note.startswith(_ESTIMATE)


def _own_times(slices: Sequence[NodeRun]) -> list[int]:
    """Return the time of each slice without that of the slices inside of it, in one thread."""
    own = [part.end - part.start for part in slices]
    open_in: dict[tuple[str, int], list[int]] = {}
    for index, part in enumerate(slices):
        if is_estimate(part):
            continue
        stack = open_in.setdefault((part.device, part.thread), [])
        while stack and slices[stack[-1]].end <= part.start:
            stack.pop()
        if stack and part.end <= slices[stack[-1]].end:
            own[stack[-1]] -= part.end - part.start
        stack.append(index)
    return own


def step_data(step: TracedStep, positions: dict[str, int]) -> dict[str, Any]:
    """Return a step as plain values for the page.

    Args:
        step: the step.
        positions: the positions of the nodes that the page shows, by name.

    Returns:
        `rows` are the devices and threads; `slices` are lists `[row, start, length, node, label,
        bytes]`, with nanoseconds since the beginning, and -1 for nodes that the page does not show.
    """
    rows: dict[tuple[str, int], int] = {}
    labels: dict[str, int] = {}
    slices = [
        [
            rows.setdefault((part.device, part.thread), len(rows)),
            part.start - step.start,
            part.end - part.start,
            positions.get(part.name, -1),
            labels.setdefault(_label(part), len(labels)),
            part.num_bytes,
        ]
        for part in step.slices
        if part.end > part.start or part.num_bytes
    ]
    return {
        "name": step.name,
        "nanoseconds": step.nanoseconds,
        "rows": [f"{short_device(device)}, thread {thread}" for device, thread in rows],
        "labels": list(labels),
        "slices": slices,
        "memory": _memory(step),
        "peaks": [
            {
                "device": short_device(device),
                "bytes": peak.num_bytes,
                "time": peak.time - step.start,
                "holders": [[one.node, one.num_bytes] for one in peak.holders[:_TOP]],
            }
            for device, peak in step.peaks.items()
        ],
    }


def _label(part: NodeRun) -> str:
    note = f" ({part.note})" if part.note else ""
    return f"{part.name} ({part.op}){note}" if part.op else f"{part.name}{note}"


def _memory(step: TracedStep) -> list[dict[str, Any]]:
    """Return the curve of the bytes alive on each device."""
    curves: dict[str, list[list[int]]] = {}
    for time, device, alive in alive_bytes(lifetimes(step.slices)):
        curves.setdefault(device, []).append([time - step.start, alive])
    return [
        {"device": short_device(device), "points": _thinned(points)}
        for device, points in curves.items()
    ]


def _thinned(points: list[list[int]]) -> list[list[int]]:
    """Return at most `_MAX_POINTS` points: for each interval the one with the most bytes."""
    width = -(-len(points) // _MAX_POINTS)
    return [
        max(points[start : start + width], key=lambda point: point[1])
        for start in range(0, len(points), width)
    ]


def short_device(device: str) -> str:
    """Return `CPU:0` for a full device name of this process, with job and task for others."""
    task, _, local = device.rpartition("/device:")
    if task in ("/job:localhost/replica:0/task:0", ""):
        return local
    return f"{task.removeprefix('/job:').replace('/replica:0', '')} {local}"
