"""`Timeline`: the nodes of traced steps as a trace for Perfetto and `chrome://tracing`.

    x = F.placeholder("float32", [])
    y = x * 2.0
    timeline = graphmill.timeline.Timeline()
    for number in range(3):
        trace = graphmill.timeline.StepTrace()
        session.run(y, {x: 1.0}, run_metadata=trace)
        timeline.add_step(trace, f"step {number}")
    timeline.add_compilations(session)
    timeline.save("trace.json")

Devices are shown as processes, and threads as threads. A compiled cluster is a slice with its nodes
inside. Kernels that waited are in rows of their own, as are loops with their iterations. Arrows
lead from the node that computed a value to the nodes that took it, and from a send to its receive.
Compilations are in a process of their own. Semantics: tensorflow/python/client/timeline.py, which
shows one step.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

from graphmill import files
from graphmill.explain.loop_spans import loop_spans
from graphmill.explain.memory import alive_bytes
from graphmill.explain.node_runs import NodeRun, lifetimes, node_runs, producer_of
from graphmill.explain.step import explain_all
from graphmill.explain.step_trace import StepTrace

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Sequence

    from graphmill.explain.compilation import ClusterRecord, CompileRecord, SignatureRecord
    from graphmill.proto import RunMetadata
    from graphmill.proto.step_stats_pb2 import StepStats
    from graphmill.session.session import Session

__all__ = ["NodeRun", "StepTrace", "Timeline", "lifetimes", "node_runs"]

# The number of the process and of the thread that show the steps. Perfetto takes process 0 for the
# idle process, and merges threads that have the same number in different processes.
_STEPS = 1
_COMPILER = "compiler"  # the process that shows compilations
_IN_FLIGHT = "in flight"  # the thread of kernels that waited


class _CompileRun(NamedTuple):
    """An attempt to compile a signature of a cluster."""

    cluster: ClusterRecord
    signature: SignatureRecord
    attempt: CompileRecord

    @property
    def start(self) -> int:
        """When the attempt began, in nanoseconds."""
        return self.attempt.ended - int(self.attempt.seconds * 1e9)


class Timeline:
    """A trace of one or more steps.

    Threads: use it in one thread at a time.
    """

    def __init__(self, step_stats: StepStats | None = None) -> None:
        """Create a timeline, empty or of one step.

        Args:
            step_stats: the statistics of a step, as TensorFlow's class takes them.
        """
        self._steps: list[tuple[str, StepTrace | list[NodeRun]]] = []
        self._compiles: list[_CompileRun] = []
        if step_stats is not None:
            self.add_step(step_stats)

    def add_step(self, traced: StepTrace | RunMetadata | StepStats, name: str = "") -> None:
        """Add a step.

        Args:
            traced: the trace of a step, which is read when the timeline is written; or the
                metadata of a step that ran with `trace_level` FULL_TRACE, or its statistics.
            name: how the step is shown; by default "step" and its number.

        Raises:
            InvalidArgumentError: it has no statistics: the step was not traced.
        """
        step: StepTrace | list[NodeRun]
        if isinstance(traced, StepTrace) and traced.has_statistics:
            step = traced
        else:
            step = _split_receives(node_runs(traced))
        self._steps.append((name or f"step {len(self._steps)}", step))

    def add_compilations(self, session: Session) -> None:
        """Add the session's compilations so far; those that ended after the trace began are shown.

        Args:
            session: the session whose steps were added. Those of a server have no records here.
        """
        self._compiles = [
            _CompileRun(cluster, signature, attempt)
            for record in explain_all(session)
            for compilation in record.compilations.values()
            for cluster in compilation.clusters
            for signature in cluster.signatures
            for attempt in signature.compiles
        ]

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
        steps = [(name, _slices_of(step)) for name, step in self._steps]
        self._steps = [*steps]
        origin = min((slices[0].start for _, slices in steps), default=0)
        devices = dict.fromkeys(part.device for _, slices in steps for part in slices)
        processes = {device: number for number, device in enumerate(devices, _STEPS + 1)}
        yield _metadata("process_name", _STEPS, _STEPS, "steps")
        for device, process in processes.items():
            yield _metadata("process_name", process, 0, device)
        threads: dict[tuple[int, str, int], int] = {}
        flows = 0
        compiler = _STEPS + 1 + len(processes)
        yield from _compile_events(self._compiles, compiler, threads, origin)
        for name, slices in steps:
            start, end = slices[0].start, max(part.end for part in slices)
            yield _complete(name, "step", _STEPS, _STEPS, start - origin, end - start)
            yield from _loop_events(slices, processes, threads, origin)
            places = []
            for part, row in zip(slices, _rows(slices), strict=True):
                process = processes[part.device]
                title = part.thread_name or f"thread {part.thread}"
                thread, names = _thread(threads, process, title, row)
                yield from names
                places.append((process, thread))
                yield _node_event(part, process, thread, origin)
            if show_dataflow:
                for event in _arrows(slices, places, origin, flows):
                    flows += event["ph"] == "s"
                    yield event
            if show_memory:
                yield from _memory(slices, processes, origin)


def _slices_of(step: StepTrace | list[NodeRun]) -> list[NodeRun]:
    return _split_receives(node_runs(step)) if isinstance(step, StepTrace) else step


def _thread(
    threads: dict[tuple[int, str, int], int], process: int, title: str, row: int
) -> tuple[int, list[dict[str, Any]]]:
    """Return the number of a thread's row, and the event that names it if it is new."""
    key = (process, title, row)
    if key in threads:
        return threads[key], []
    threads[key] = number = _STEPS + 1 + len(threads)
    text = title + (f" ({row + 1})" if row else "")
    return number, [_metadata("thread_name", process, number, text)]


def _loop_events(
    slices: Sequence[NodeRun],
    processes: dict[str, int],
    threads: dict[tuple[int, str, int], int],
    origin: int,
) -> Iterable[dict[str, Any]]:
    """Yield the loops of a step and their iterations as nested slices."""
    for device, process in processes.items():
        runs = [
            (part.iteration, part.start, part.end)
            for part in slices
            if part.iteration and part.device == device
        ]
        for span in loop_spans(runs):
            thread, names = _thread(threads, process, "loops", span.lane)
            yield from names
            times = span.start - origin, span.end - span.start
            slice_ = _complete(span.name, "loop", process, thread, *times)
            yield {**slice_, "args": {"path": span.path}}


def _compile_events(
    compiles: Sequence[_CompileRun],
    process: int,
    threads: dict[tuple[int, str, int], int],
    origin: int,
) -> Iterable[dict[str, Any]]:
    """Yield the compilations since the first step began."""
    shown = sorted(
        (one for one in compiles if one.attempt.ended > origin), key=lambda one: one.start
    )
    rows: list[list[int]] = []
    if shown:
        yield _metadata("process_name", process, 0, _COMPILER)
    for run in shown:
        cluster, signature, attempt = run
        start = max(run.start, origin)
        thread, event = _thread(
            threads, process, "compilations", _add_to_row(rows, start, attempt.ended)
        )
        yield from event
        times = start - origin, attempt.ended - start
        slice_ = _complete(cluster.name, "compilation", process, thread, *times)
        arguments = {
            "outcome": attempt.outcome,
            "signature": signature.signature,
            "cause": attempt.cause,
            **({"reason": attempt.reason} if attempt.reason else {}),
        }
        yield {**slice_, "args": arguments}


def _rows(slices: Sequence[NodeRun]) -> list[int]:
    """Return for each slice, sorted by start, the row of its thread in which slices nest.

    A kernel that returns before it is done may overlap with later ones, which viewers cannot show
    in one row.
    """
    rows: dict[tuple[str, int], list[list[int]]] = {}  # the ends of the open slices of each row
    return [
        _add_to_row(rows.setdefault((part.device, part.thread), []), part.start, part.end)
        for part in slices
    ]


def _add_to_row(rows: list[list[int]], start: int, end: int) -> int:
    """Add a slice to the first row where it is disjoint from or nested in the others."""
    for number, ends in enumerate(rows):
        while ends and ends[-1] <= start:
            ends.pop()
        if not ends or end <= ends[-1]:
            ends.append(end)
            return number
    rows.append([end])
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
    if part.iteration:
        arguments["iteration"] = part.iteration
    category = "node"
    if part.transfer:
        arguments |= {"transfer": part.transfer, "peer": part.peer}
        category = "transfer"
    elif part.thread_name == _IN_FLIGHT:
        category = "waiting"
    times = part.start - origin, part.end - part.start
    event = _complete(part.op or part.name, category, process, thread, *times)
    return {**event, "args": arguments}


def _arrows(
    slices: Sequence[NodeRun],
    places: Sequence[tuple[int, int]],
    origin: int,
    first: int,
) -> Iterable[dict[str, Any]]:
    """Yield arrows to each node's run from the latest earlier runs of its inputs."""
    # For each node, when its runs ended, and their indices.
    runs: dict[str, tuple[list[int], list[int]]] = {}
    for index in sorted(range(len(slices)), key=lambda i: slices[i].end):
        ends, indices = runs.setdefault(slices[index].name, ([], []))
        ends.append(slices[index].end)
        indices.append(index)
    sends = {_sent(part): index for index, part in enumerate(slices) if part.transfer}
    pairs: list[tuple[int, int]] = []  # producer and consumer
    for index, part in enumerate(slices):
        for producer in dict.fromkeys(map(producer_of, part.inputs)):
            ends, indices = runs.get(producer, ([], []))
            num_before = bisect_right(ends, part.start)
            if num_before:
                pairs.append((indices[num_before - 1], index))
        source = sends.get(_received(part)) if part.transfer else None
        if source is not None and slices[source].end <= part.start:
            pairs.append((source, index))
    for number, (source, index) in enumerate(pairs, first):
        left = max(slices[source].start, slices[source].end - 1)
        yield _arrow_end("s", number, places[source], left - origin)
        yield {**_arrow_end("f", number, places[index], slices[index].start - origin), "bp": "e"}


def _sent(part: NodeRun) -> tuple[str, str, str, str]:
    """Return the key that a send shares with its receive."""
    return part.transfer, part.device, part.peer, part.iteration


def _received(part: NodeRun) -> tuple[str, str, str, str]:
    """Return the key that a receive shares with its send."""
    return part.transfer, part.peer, part.device, part.iteration


def _split_receives(slices: Sequence[NodeRun]) -> list[NodeRun]:
    """Divide each receive into the wait for its send and the transfer.

    Viewers draw arrows from the slice that begins first to the other one.
    """
    sends = {_sent(part): part.end for part in slices if part.transfer}
    divided = []
    for part in slices:
        sent = sends.get(_received(part), part.start) if part.transfer else part.start
        if part.start < sent <= part.end:
            wait = part._replace(op=f"{part.op} waits", end=sent, num_bytes=0, transfer="", peer="")
            divided += [wait, part._replace(start=sent)]
        else:
            divided.append(part)
    divided.sort(key=lambda part: (part.start, -part.end))
    return divided


def _arrow_end(phase: str, number: int, place: tuple[int, int], time: int) -> dict[str, Any]:
    process, thread = place
    return {
        "ph": phase,
        "id": number,
        "name": "value",
        "cat": "dataflow",
        "pid": process,
        "tid": thread,
        "ts": time / 1000,
    }


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
