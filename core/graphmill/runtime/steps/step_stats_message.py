"""The `StepStats` message of a step, written as bytes.

A step of a thousand small nodes takes a few milliseconds, and filling in a message field by field
several times as long. So what all runs of a node have in common (its name, label and outputs) is
serialized once and kept with its graph, and NumPy encodes the times of all runs at once, as varints
of fixed length, which every parser accepts.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

import numpy as np

from graphmill.graph.device_name import local_name
from graphmill.runtime.steps.step_stats import (
    IN_FLIGHT,
    NodeStats,
    TimedRun,
    as_stats,
    label_of,
    write_output,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.runtime.steps.step_stats import OutputStats

    Runs = Sequence[Any]  # `TimedRun`, a plain tuple of its fields, or `NodeStats`

_NANOS_PER_MICRO: Final = 1000
_FIELDS: Final = (
    (2, 0, 8),  # all_start_micros
    (4, 1, 6),  # op_end_rel_micros
    (5, 1, 6),  # all_end_rel_micros
    (9, 2, 8),  # scheduled_micros
    (10, 3, 3),  # thread_id
    (13, 4, 9),  # all_start_nanos
    (15, 5, 7),  # op_end_rel_nanos
    (16, 5, 7),  # all_end_rel_nanos
    (17, 6, 9),  # scheduled_nanos
)
"""Field of `NodeExecStats`, column of the matrix of its values, and bytes of its varint."""


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _field(number: int, content: bytes) -> bytes:
    """Return a field whose type is bytes, a string or a message."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _layout() -> tuple[Any, Any, Any, Any]:
    """Return for each byte of the encoded times its column, shift, mask, and the bits to set."""
    rows: list[tuple[int, int, int, int]] = []
    for number, column, size in _FIELDS:
        rows += [(column, 0, 0, tag) for tag in _varint(number << 3)]
        rows += [(column, 7 * i, 0x7F, 0x80 if i < size - 1 else 0) for i in range(size)]
    columns, *others = np.array(rows, np.int64).T
    shifts, masks, bits = (one.reshape(-1, 1) for one in others)
    return columns, shifts, masks.astype(np.uint8), bits.astype(np.uint8)


_COLUMNS, _SHIFTS, _MASKS, _BITS = _layout()
_WIDTH: Final = len(_COLUMNS)


class _Header:
    """The serialized parts that all runs of a node with the same outputs on a device share."""

    __slots__ = ("device", "fixed", "label", "outputs", "whole")

    def __init__(self, node: Node, outputs: Sequence[Any], device: str) -> None:
        self.device = device
        self.outputs = outputs
        stats = as_stats(TimedRun(node, 0, 0, 0, 0, tuple(outputs), ""))
        self.fixed = _fixed_part(stats.node_name, stats.outputs, device)
        self.label = label_of(node)
        self.whole = _opening(self.fixed, self.label)


_HEADERS: Final[WeakKeyDictionary[Graph, dict[int, _Header]]] = WeakKeyDictionary()


def serialize_devices(by_device: Mapping[str, Runs], names: Mapping[int | None, str]) -> bytes:
    """Return a serialized `StepStats` message.

    Args:
        by_device: the runs of nodes by device.
        names: the names of threads by identity.
    """
    return b"".join(
        _field(1, b"".join(_device(device, by_device[device], names)))
        for device in sorted(by_device)
    )


def _device(device: str, runs: Runs, names: Mapping[int | None, str]) -> Iterable[bytes]:
    """Yield the fields of a `DeviceStepStats`."""
    # Column by column: a loop over the runs that looks up their fields takes twice as long.
    timed = [run for run in runs if type(run) is not NodeStats]
    described = [run for run in runs if type(run) is NodeStats]
    nodes, *times, outputs, iterations = zip(*timed, strict=True) if timed else ((),) * 7
    _, _, *more_times, _, _ = zip(*described, strict=True) if described else ((),) * 8
    thread_ids, scheduled, started, ended = map(_joined, times, more_times)
    threads = {thread: number for number, thread in enumerate(dict.fromkeys(thread_ids))}
    encoded = _times([threads[one] for one in thread_ids], scheduled, started, ended)
    pieces = [b""] * (2 * len(thread_ids))
    pieces[::2] = [
        *_openings(device, nodes, outputs, iterations),
        *(_opening_of(run.node_name, run.op, run.outputs, run.label, device) for run in described),
    ]
    pieces[1::2] = [encoded[at : at + _WIDTH] for at in range(0, len(encoded), _WIDTH)]
    yield _field(1, device.encode())
    yield from pieces
    for thread, number in threads.items():
        name = "in flight" if thread == IN_FLIGHT else names.get(thread, f"thread {number}")
        yield _field(3, b"\x08" + _varint(number) + _field(2, name.encode()))


def _openings(
    device: str,
    nodes: Sequence[Node],
    all_outputs: Sequence[Any],
    iterations: Sequence[str],
) -> Iterable[bytes]:
    """Yield the beginning of the field of each run that an executor recorded."""
    graph: Graph | None = None
    headers: dict[int, _Header] = {}
    for node, outputs, iteration in zip(nodes, all_outputs, iterations, strict=True):
        if node.graph is not graph:
            graph = node.graph
            headers = _HEADERS.setdefault(graph, {})
        header = headers.get(node.id)
        if header is None or header.outputs != outputs or header.device != device:
            header = headers[node.id] = _Header(node, outputs, device)
        if iteration:
            yield _opening(header.fixed, f"{header.label} @ {iteration}")
        else:
            yield header.whole


def _joined(one: Sequence[int], other: Sequence[int]) -> Sequence[int]:
    return (*one, *other) if other else one


def _times(
    thread: Sequence[int], scheduled: Sequence[int], started: Sequence[int], ended: Sequence[int]
) -> bytes:
    """Return the encoded times of all runs, `_WIDTH` bytes each."""
    ready, start = np.array(scheduled, np.int64), np.array(started, np.int64)
    length = np.maximum(np.array(ended, np.int64) - start, 0)
    micros = [times // _NANOS_PER_MICRO for times in (start, length, ready)]
    matrix = np.stack([*micros, np.array(thread, np.int64), start, length, ready])
    encoded = matrix.take(_COLUMNS, axis=0)
    encoded >>= _SHIFTS
    low = encoded.astype(np.uint8)
    low &= _MASKS
    low |= _BITS
    content: bytes = low.T.tobytes()
    return content


def _opening(fixed: bytes, label: str) -> bytes:
    """Return the beginning of a field `node_stats`, which the encoded times complete."""
    content = fixed + _field(8, label.encode())
    return b"\x12" + _varint(len(content) + _WIDTH) + content


@lru_cache(maxsize=16_384)
def _opening_of(
    name: str, op: str, outputs: tuple[OutputStats, ...], label: str, device: str
) -> bytes:
    """Return the opening for a node that is known by name, such as one in a cluster."""
    return _opening(_fixed_part(name, outputs, device), label or f"{name} = {op}()")


def _fixed_part(name: str, outputs: Sequence[OutputStats], device: str) -> bytes:
    """Return name, outputs and memory; memory is that of the outputs, without temporaries."""
    from graphmill.proto import step_stats_pb2

    node = step_stats_pb2.NodeExecStats(node_name=name)
    allocator = local_name(device).partition(":")[0].lower()
    for slot, output in enumerate(outputs):
        description = node.output.add(slot=slot).tensor_description
        write_output(output, description)
        allocation = description.allocation_description
        allocation.requested_bytes = allocation.allocated_bytes = output.num_bytes
        allocation.allocator_name = allocator
    size = sum(output.num_bytes for output in outputs)
    if size:
        node.memory.add(
            allocator_name=allocator, total_bytes=size, peak_bytes=size, live_bytes=size
        )
    node.memory_stats.SetInParent()  # set and empty, as for kernels of TensorFlow's CPU device
    content: bytes = node.SerializeToString()
    return content
