"""Split clusters that are too large for one program.

XLA takes more than twice as long for a program of twice the size: seconds for some thousand
operations, minutes for ten thousand. The program itself also takes longer for each operation. A
large cluster therefore becomes several of bounded size, which are compiled one after the other and
used as they are ready.

The nodes are put into a topological order that follows one path as far as it goes, and the order is
cut. So no path leaves a part and comes back, and few values pass from part to part. Where the order
repeats itself (layers, calls of one function) it is cut at the same position of each repetition, so
that parts are equal: equal parts share one program. Where nothing repeats, parts are larger,
because each program has a fixed cost, to compile and to call. Nodes that write variables, and what
depends on them, are in the last part together: writes stay one call.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections import Counter
from typing import TYPE_CHECKING, Final, TypeAlias

from graphmill_plugins.jit.ir.handles import takes_handle
from graphmill_plugins.jit.ir.invariant_nodes import is_source

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from graphmill.spi import Edge, Node

_CONTEXTS: Final = (128, 16)  # numbers of following nodes by which equal positions are found
_Context: TypeAlias = "tuple[int, list[int]]"  # a number of nodes, and their hash by position
_PRIME: Final = (1 << 61) - 1
_BASE: Final = 1_000_003
_MAX_DISTANCE: Final = 64  # distances of inputs beyond this count as equal
_MIN_LAST_PART: Final = 0.1  # of the size of a part; a smaller last part joins the one before
_PART_SIZE: Final = 500  # about; small for XLA (half a second), large compared to a call
_UNIQUE_PART_SIZE: Final = 2000  # the same if no parts are equal
_MIN_REPEATED: Final = 0.5  # share of the nodes that are followed by the same nodes as others
READ_BY_SEVERAL: Final = "several parts of a large cluster read the variable's value"


def split(
    members: Sequence[Node], size_of: Callable[[Node], int], max_size: int
) -> list[list[Node]]:
    """Return the parts of a cluster, each in topological order.

    A node that reads a variable for several parts is in none: as the output of a program its value
    would be copied in each step.

    Args:
        members: the cluster, in topological order.
        size_of: the number of operations of a node.
        max_size: the largest number of operations of a part, about; usual parts are smaller.
    """
    sizes = {node: size_of(node) for node in members}
    last = _writers(members)
    order = _depth_first([node for node in members if node not in last])
    contexts = _contexts(order)
    size = _PART_SIZE if _repeats_itself(contexts) else _UNIQUE_PART_SIZE
    parts = _cut(order, sizes, min(size, max_size), contexts)
    if last:
        parts.append([node for node in members if node in last])
    shared = _read_by_several(parts)
    return [[node for node in part if node not in shared] for part in parts]


def _writers(members: Sequence[Node]) -> set[Node]:
    """Return the nodes that take a handle without returning a value, and their descendants."""
    inside = set(members)
    found: set[Node] = set()
    for node in members:
        is_writer = takes_handle(node) and not any(_data_consumers(node, inside))
        if is_writer or any(edge.src in found for edge in _in_edges(node)):
            found.add(node)
    return found


def _read_by_several(parts: Sequence[Sequence[Node]]) -> set[Node]:
    """Return the nodes that take a handle and whose values are read in several parts."""
    part_of = {node: index for index, part in enumerate(parts) for node in part}
    return {
        node
        for node in part_of
        if takes_handle(node)
        and len({part_of[reader] for reader in _data_consumers(node, part_of)}) > 1
    }


def _data_consumers(node: Node, inside: Collection[Node]) -> Iterator[Node]:
    return (edge.dst for edge in node.out_edges if not edge.is_control and edge.dst in inside)


def _in_edges(node: Node) -> Iterable[Edge]:
    return (*node.in_edges, *node.control_in_edges)


def _depth_first(members: Sequence[Node]) -> list[Node]:
    """Return the nodes in a topological order that places each soon after its inputs."""
    inside = set(members)
    inputs = {
        node: [edge.src for edge in _in_edges(node) if edge.src in inside] for node in members
    }
    read = {src for sources in inputs.values() for src in sources}
    order: list[Node] = []
    seen: set[Node] = set()
    for last in (node for node in members if node not in read):
        stack = [(last, iter(inputs[last]))]
        seen.add(last)
        while stack:
            node, pending = stack[-1]
            src = next((one for one in pending if one not in seen), None)
            if src is None:
                order.append(node)
                stack.pop()
            else:
                seen.add(src)
                stack.append((src, iter(inputs[src])))
    return order


def _repeats_itself(contexts: Sequence[_Context]) -> bool:
    """Return whether most nodes are followed by the same nodes as others."""
    counts = Counter(contexts[-1][1])
    repeated = sum(count for count in counts.values() if count > 1)
    return repeated >= _MIN_REPEATED * sum(counts.values())


def _cut(
    order: Sequence[Node],
    sizes: dict[Node, int],
    max_size: int,
    contexts: Sequence[_Context],
) -> list[list[Node]]:
    """Cut an order into parts of about equal size, at the same position of each repetition."""
    total = sum(sizes[node] for node in order)
    size = math.ceil(total / math.ceil(total / max_size)) if total else 1
    begins = list(itertools.accumulate((sizes[node] for node in order), initial=0))
    parts, start = [], 0
    while start < len(order):
        end = bisect.bisect_left(begins, begins[start] + size, start + 1, len(order))
        if end < len(order):
            end = _same_place(start, end, contexts)
        if total - begins[end] < size * _MIN_LAST_PART:
            end = len(order)
        parts.append(list(order[start:end]))
        start = end
    return parts


def _same_place(start: int, end: int, contexts: Sequence[_Context]) -> int:
    """Return the last position up to `end` that is followed by the same nodes as `start`.

    The part is at least half as long then; `end` if there is no such position.
    """
    for length, context in contexts:
        if end + length > len(context) and length != _CONTEXTS[-1]:
            continue  # near the end of the order the only match would be far away
        for position in range(end, (start + end) // 2, -1):
            if context[position] == context[start]:
                return position
    return end


def _contexts(order: Sequence[Node]) -> list[_Context]:
    """Return for each position hashes of the following nodes and their inputs.

    The first two lists also distinguish which constants the nodes read, because small constants are
    part of programs.
    """
    positions = {node: index for index, node in enumerate(order)}
    kinds = [(node.op, _distances(node, positions)) for node in order]
    hashes = [[hash((kind, _sources(node))) for kind, node in zip(kinds, order, strict=True)]]
    hashes.append([hash(kind) for kind in kinds])
    return [(length, window_hashes(one, length)) for one in hashes for length in _CONTEXTS]


def window_hashes(hashes: list[int], length: int) -> list[int]:
    """Return for each position a hash of the following hashes: a polynomial modulo a prime."""
    leading = pow(_BASE, length, _PRIME)
    windows, value = [], 0
    # The hash at a position follows from the next one: one number enters and one leaves.
    for own, last in zip(reversed(hashes), [0] * length + hashes[::-1], strict=False):
        value = (value * _BASE + own - last * leading) % _PRIME
        windows.append(value)
    windows.reverse()
    return windows


def _sources(node: Node) -> tuple[int, ...]:
    return tuple([edge.src.id if is_source(edge.src) else 0 for edge in node.in_edges])


def _distances(node: Node, positions: dict[Node, int]) -> tuple[int, ...]:
    """Return the distances from a node back to its inputs; 0 for distant inputs."""
    position = positions[node]
    distances = [position - positions.get(edge.src, -_MAX_DISTANCE) for edge in node.in_edges]
    return tuple([distance if distance < _MAX_DISTANCE else 0 for distance in distances])
