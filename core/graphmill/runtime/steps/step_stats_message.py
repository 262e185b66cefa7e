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

from graphmill.runtime.steps.step_stats import (
    IN_FLIGHT,
    NodeStats,
    as_stats,
    label_of,
    write_output,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from graphmill.graph.graph import Graph
    from graphmill.runtime.steps.step_stats import OutputStats, TimedRun

    Runs = Sequence[TimedRun | NodeStats]

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
    columns, shifts, masks, bits = np.array(rows, np.int64).T
    return columns, shifts, masks.astype(np.uint8), bits.astype(np.uint8)


_COLUMNS, _SHIFTS, _MASKS, _BITS = _layout()
_WIDTH: Final = len(_COLUMNS)


class _Header:
    """The serialized parts that all runs of a node with the same outputs on a device share."""

    __slots__ = ("device", "fixed", "label", "outputs", "whole")

    def __init__(self, run: TimedRun, device: str) -> None:
        self.device = device
        self.outputs = run.outputs
        stats = as_stats(run)
        self.fixed = _fixed_part(stats.node_name, stats.outputs, device)
        self.label = label_of(run.node)
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
    threads: dict[int, int] = {}
    for run in runs:
        threads.setdefault(run.thread_id, len(threads))
    yield _field(1, device.encode())
    yield from _node_stats(device, runs, _times(runs, threads))
    for thread, number in threads.items():
        name = "in flight" if thread == IN_FLIGHT else names.get(thread, f"thread {number}")
        yield _field(3, b"\x08" + _varint(number) + _field(2, name.encode()))


def _node_stats(device: str, runs: Runs, times: bytes) -> Iterable[bytes]:
    graph: Graph | None = None
    headers: dict[int, _Header] = {}
    for index, run in enumerate(runs):
        if isinstance(run, NodeStats):
            yield _opening_of(run.node_name, run.op, run.outputs, run.label, device)
        else:
            node = run.node
            if node.graph is not graph:
                graph = node.graph
                headers = _HEADERS.setdefault(graph, {})
            header = headers.get(node.id)
            if header is None or header.outputs != run.outputs or header.device != device:
                header = headers[node.id] = _Header(run, device)
            if run.iteration:
                yield _opening(header.fixed, f"{header.label} @ {run.iteration}")
            else:
                yield header.whole
        yield times[index * _WIDTH : (index + 1) * _WIDTH]


def _times(runs: Runs, threads: Mapping[int, int]) -> bytes:
    """Return the encoded times of all runs, `_WIDTH` bytes each."""
    values = [
        value
        for run in runs
        for value in (run.scheduled, run.started, run.ended, threads[run.thread_id])
    ]
    scheduled, started, ended, thread = np.array(values, np.int64).reshape(-1, 4).T
    length = np.maximum(ended - started, 0)
    micros = [times // _NANOS_PER_MICRO for times in (started, length, scheduled)]
    matrix = np.stack([*micros, thread, started, length, scheduled], axis=1)
    encoded = matrix.take(_COLUMNS, axis=1)
    encoded >>= _SHIFTS
    low = encoded.astype(np.uint8)
    low &= _MASKS
    low |= _BITS
    content: bytes = low.tobytes()
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
    allocator = device.rpartition("/device:")[2].partition(":")[0].lower()
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
    content: bytes = node.SerializeToString()
    return content
