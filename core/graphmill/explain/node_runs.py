"""The runs of nodes in a traced step, as its statistics describe them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError
from graphmill.explain.memory import Lifetime

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphmill.explain.step_trace import StepTrace
    from graphmill.proto import RunMetadata
    from graphmill.proto.step_stats_pb2 import NodeExecStats, StepStats

_LABEL = re.compile(
    r"(?P<name>.*?) = (?P<op>[^(]*)\((?P<inputs>[^()]*)\)"
    r"(?: \((?P<note>.*)\))?(?: @ (?P<iteration>.*))?"
)
_TRANSFER = re.compile(r"(?P<key>.*) @(?P<peer>/.*)")


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
        iteration: the iterations around it, as `outer:3/inner:0`; empty outside of loops.
        thread_name: the name of the thread.
        transfer: the key of what it sends or receives; empty for other nodes.
        peer: the device at the other end of the transfer.
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
    iteration: str = ""
    thread_name: str = ""
    transfer: str = ""
    peer: str = ""


def node_runs(traced: StepTrace | RunMetadata | StepStats) -> list[NodeRun]:
    """Return the runs of nodes in a traced step, ordered by start; a run precedes those in it.

    Args:
        traced: the trace of a step; or the metadata of one that ran with `trace_level` FULL_TRACE,
            or its statistics.

    Raises:
        InvalidArgumentError: it has no statistics: the step was not traced; or it is none of these.
    """
    stats: Any = getattr(traced, "step_stats", traced)
    if not hasattr(stats, "dev_stats"):
        raise InvalidArgumentError(
            f"expected a StepTrace, a RunMetadata or a StepStats, got {type(traced).__name__}"
        )
    slices = [
        _node_run(device.device, node, device.thread_names)
        for device in stats.dev_stats
        for node in device.node_stats
    ]
    if not slices:
        raise InvalidArgumentError(
            "the step has no statistics; run it with run_metadata=StepTrace() and pass that, or "
            "with options=RunOptions(trace_level=RunOptions.FULL_TRACE) and pass its run_metadata"
        )
    slices.sort(key=lambda part: (part.start, -part.end))
    return slices


def _node_run(device: str, stats: NodeExecStats, threads: Mapping[int, str]) -> NodeRun:
    start = stats.all_start_nanos or stats.all_start_micros * 1000
    length = stats.all_end_rel_nanos or stats.all_end_rel_micros * 1000
    label = _LABEL.fullmatch(stats.timeline_label)
    names = [] if label is None else label["inputs"].split(", ")
    inputs = tuple(name for name in names if name and not name.startswith("^"))
    transfer = _TRANSFER.fullmatch(inputs[0]) if len(inputs) == 1 else None
    descriptions = [output.tensor_description for output in stats.output]
    return NodeRun(
        name=stats.node_name,
        op="" if label is None else label["op"],
        inputs=() if transfer else inputs,
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
        iteration="" if label is None else label["iteration"] or "",
        thread_name=threads.get(stats.thread_id, ""),
        transfer=transfer["key"] if transfer else "",
        peer=transfer["peer"] if transfer else "",
    )


def _dtype_name(enum: int) -> str:
    return as_dtype(enum).name


def lifetimes(slices: Sequence[NodeRun]) -> list[Lifetime]:
    """Return the lifetimes of the outputs of the nodes of a step.

    The last consumer of an output releases it; outputs without a consumer live until the end.
    Buffers inside of kernels are not counted.
    """
    last_use: dict[str, int] = {}
    for part in slices:
        for name in map(producer_of, part.inputs):
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


def producer_of(name: str) -> str:
    """Return the node of an input that a label names, such as `w:1` or `^c`."""
    return name.removeprefix("^").partition(":")[0]
