"""`Timeline`: the nodes of traced steps as a trace for Perfetto and `chrome://tracing`.

    timeline = graphmill.timeline.Timeline()
    for number in range(3):
        metadata = graphmill.RunMetadata()
        session.run(y, options=traced, run_metadata=metadata)
        timeline.add_step(metadata, f"step {number}")
    timeline.save("trace.json")

Devices are shown as processes, and threads as threads. A compiled cluster is a slice with its nodes
inside. Arrows lead from the node that computed a value to the nodes that took it. Semantics:
tensorflow/python/client/timeline.py, which shows one step.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from graphmill import files
from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError
from graphmill.explain.memory import Lifetime, alive_bytes

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from graphmill.proto import RunMetadata
    from graphmill.proto.step_stats_pb2 import NodeExecStats, StepStats

__all__ = ["NodeRun", "Timeline", "lifetimes", "node_runs"]

_STEPS = 0  # the process that shows the steps
_LABEL = re.compile(r"(?P<name>.*?) = (?P<op>[^(]*)\((?P<inputs>[^()]*)\)(?: \((?P<note>.*)\))?")


class NodeRun(NamedTuple):
    """A run of a node in a step; times are in nanoseconds since the epoch.

    Attributes:
        name, op: the node and its op; the op is empty if the statistics do not name it.
        inputs: the names of the tensors that it took.
        note: what its label adds, such as the cluster of which the times are a share.
        device: full name of its device.
        thread: number of the thread that ran it.
        scheduled, start, end: when it became ready, when it began and when it was done.
        num_bytes: the size of its outputs.
        outputs: dtype and shape of each output.
    """

    name: str
    op: str
    inputs: tuple[str, ...]
    note: str
    device: str
    thread: int
    scheduled: int
    start: int
    end: int
    num_bytes: int
    outputs: tuple[str, ...]


class Timeline:
    """A trace of one or more steps.

    Threads: use it in one thread at a time.
    """

    def __init__(self, step_stats: StepStats | None = None) -> None:
        """Create a timeline, empty or of one step.

        Args:
            step_stats: the statistics of a step, as TensorFlow's class takes them.
        """
        self._steps: list[tuple[str, list[NodeRun]]] = []
        if step_stats is not None:
            self.add_step(step_stats)

    def add_step(self, traced: RunMetadata | StepStats, name: str = "") -> None:
        """Add a step.

        Args:
            traced: the metadata of a step that ran with `trace_level` FULL_TRACE, or its
                statistics.
            name: how the step is shown; by default "step" and its number.

        Raises:
            InvalidArgumentError: it has no statistics: the step was not traced.
        """
        slices = node_runs(traced)
        self._steps.append((name or f"step {len(self._steps)}", slices))

    def generate_chrome_trace_format(
        self, show_dataflow: bool = True, show_memory: bool = True
    ) -> str:
        """Return the trace as JSON in Chrome's trace event format.

        Args:
            show_dataflow: whether to draw arrows from producers to consumers.
            show_memory: whether to show how many bytes of outputs are alive on each device. The
                last consumer of an output releases it; buffers inside of kernels are not counted.
        """
        events = list(self._events(show_dataflow, show_memory))
        return json.dumps({"displayTimeUnit": "ns", "traceEvents": events})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace to a file, which is replaced if it exists.

        Raises:
            OpError: the file cannot be written.
        """
        files.write(files.as_path(path), self.generate_chrome_trace_format().encode())

    def _events(self, show_dataflow: bool, show_memory: bool) -> Iterable[dict[str, Any]]:
        origin = min((slices[0].start for _, slices in self._steps), default=0)
        devices = dict.fromkeys(part.device for _, slices in self._steps for part in slices)
        processes = {device: number for number, device in enumerate(devices, _STEPS + 1)}
        yield _metadata("process_name", _STEPS, 0, "steps")
        for device, process in processes.items():
            yield _metadata("process_name", process, 0, device)
        threads: dict[tuple[int, int, int], int] = {}
        flows = 0
        for name, slices in self._steps:
            start, end = slices[0].start, max(part.end for part in slices)
            yield _complete(name, "step", _STEPS, 0, start - origin, end - start)
            rows = _rows(slices)
            places = []
            for part, row in zip(slices, rows, strict=True):
                process = processes[part.device]
                key = (process, part.thread, row)
                if key not in threads:
                    threads[key] = len(threads)
                    title = f"thread {part.thread}" + (f" ({row + 1})" if row else "")
                    yield _metadata("thread_name", process, threads[key], title)
                places.append((process, threads[key]))
                yield _node_event(part, *places[-1], origin)
            if show_dataflow:
                for event in _arrows(slices, places, origin, flows):
                    flows += event["ph"] == "s"
                    yield event
            if show_memory:
                yield from _memory(slices, processes, origin)


def node_runs(traced: RunMetadata | StepStats) -> list[NodeRun]:
    """Return the runs of nodes in a traced step, ordered by start; a slice precedes those in it.

    Args:
        traced: the metadata of a step that ran with `trace_level` FULL_TRACE, or its statistics.

    Raises:
        InvalidArgumentError: it has no statistics: the step was not traced.
    """
    stats: Any = getattr(traced, "step_stats", traced)
    slices = [
        _slice(device.device, node) for device in stats.dev_stats for node in device.node_stats
    ]
    if not slices:
        raise InvalidArgumentError(
            "the step has no statistics; run it with RunOptions(trace_level="
            "RunOptions.FULL_TRACE) and pass its run_metadata"
        )
    slices.sort(key=lambda part: (part.start, -part.end))
    return slices


def _slice(device: str, stats: NodeExecStats) -> NodeRun:
    start = stats.all_start_nanos or stats.all_start_micros * 1000
    length = stats.all_end_rel_nanos or stats.all_end_rel_micros * 1000
    label = _LABEL.fullmatch(stats.timeline_label)
    descriptions = [output.tensor_description for output in stats.output]
    return NodeRun(
        name=stats.node_name,
        op="" if label is None else label["op"],
        inputs=() if label is None else tuple(filter(None, label["inputs"].split(", "))),
        note="" if label is None else label["note"] or "",
        device=device,
        thread=stats.thread_id,
        scheduled=stats.scheduled_nanos or stats.scheduled_micros * 1000 or start,
        start=start,
        end=start + length,
        num_bytes=sum(d.allocation_description.requested_bytes for d in descriptions),
        outputs=tuple(
            f"{_dtype_name(d.dtype)}{[dim.size for dim in d.shape.dim]}"
            for d in descriptions
            if d.dtype
        ),
    )


def _dtype_name(enum: int) -> str:
    return as_dtype(enum).name


def _rows(slices: Sequence[NodeRun]) -> list[int]:
    """Return for each slice, sorted by start, the row of its thread in which slices nest.

    A kernel that returns before it is done may overlap with later ones, which viewers cannot show
    in one row.
    """
    rows: dict[tuple[str, int], list[list[int]]] = {}  # the ends of the open slices of each row
    return [_add_to_row(rows.setdefault((part.device, part.thread), []), part) for part in slices]


def _add_to_row(rows: list[list[int]], part: NodeRun) -> int:
    """Add a slice to the first row where it is disjoint from or nested in the others."""
    for number, ends in enumerate(rows):
        while ends and ends[-1] <= part.start:
            ends.pop()
        if not ends or part.end <= ends[-1]:
            ends.append(part.end)
            return number
    rows.append([part.end])
    return len(rows) - 1


def _node_event(part: NodeRun, process: int, thread: int, origin: int) -> dict[str, Any]:
    arguments = {
        "name": part.name,
        "op": part.op,
        "inputs": list(part.inputs),
        "outputs": list(part.outputs),
        "bytes": part.num_bytes,
        "waited_us": max(part.start - part.scheduled, 0) / 1000,
    }
    if part.note:
        arguments["note"] = part.note
    times = part.start - origin, part.end - part.start
    event = _complete(part.op or part.name, "node", process, thread, *times)
    return {**event, "args": arguments}


def _arrows(
    slices: Sequence[NodeRun],
    places: Sequence[tuple[int, int]],
    origin: int,
    first: int,
) -> Iterable[dict[str, Any]]:
    """Yield arrows to each node's run from the latest earlier runs of its inputs."""
    runs: dict[str, list[int]] = {}
    for index in sorted(range(len(slices)), key=lambda i: slices[i].end):
        runs.setdefault(slices[index].name, []).append(index)
    number = first
    for index, part in enumerate(slices):
        for producer in dict.fromkeys(map(_node_of, part.inputs)):
            before = [i for i in runs.get(producer, ()) if slices[i].end <= part.start]
            if not before:
                continue
            source = slices[before[-1]]
            for phase, place, time in (
                ("s", places[before[-1]], max(source.start, source.end - 1)),
                ("f", places[index], part.start),
            ):
                process, thread = place
                yield {
                    "ph": phase,
                    "id": number,
                    "name": "value",
                    "cat": "dataflow",
                    "pid": process,
                    "tid": thread,
                    "ts": (time - origin) / 1000,
                    **({"bp": "e"} if phase == "f" else {}),
                }
            number += 1


def lifetimes(slices: Sequence[NodeRun]) -> list[Lifetime]:
    """Return how long the outputs of the nodes of a step lived.

    The last consumer of an output releases it; outputs without a consumer live until the end.
    Buffers inside of kernels are not counted.
    """
    last_use: dict[str, int] = {}
    for part in slices:
        for name in map(_node_of, part.inputs):
            last_use[name] = max(last_use.get(name, 0), part.end)
    end = max((part.end for part in slices), default=0)
    return [
        Lifetime(
            part.name,
            part.device,
            part.num_bytes,
            part.end,
            max(last_use.get(part.name, end), part.end),
        )
        for part in slices
        if part.num_bytes
    ]


def _memory(
    slices: Sequence[NodeRun], processes: dict[str, int], origin: int
) -> Iterable[dict[str, Any]]:
    """Yield the bytes of outputs that are alive on each device, as counters."""
    for time, device, alive in alive_bytes(lifetimes(slices)):
        yield {
            "ph": "C",
            "name": "bytes of outputs",
            "pid": processes[device],
            "ts": (time - origin) / 1000,
            "args": {"alive": alive},
        }


def _node_of(name: str) -> str:
    return name.removeprefix("^").partition(":")[0]


def _complete(
    name: str, category: str, process: int, thread: int, start: int, length: int
) -> dict[str, Any]:
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": process,
        "tid": thread,
        "ts": start / 1000,
        "dur": length / 1000,
    }


def _metadata(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}
