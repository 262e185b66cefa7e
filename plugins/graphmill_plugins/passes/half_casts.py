"""Change the types of selected slots to a half type, with casts at the edges to other types."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

from graphmill import dtypes
from graphmill.spi.graphs import is_back_edge
from graphmill_plugins.passes.type_slots import float32_consumers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from graphmill.dtypes import DType
    from graphmill.spi import Edge, Graph, Node, OpDef
    from graphmill_plugins.passes.type_slots import TypeSlot, TypeSlots

_SHORT_NAMES: Final = {"float32": "Fp32", "float16": "Fp16", "bfloat16": "Bf16"}


def convert_slots(
    graph: Graph, slots: TypeSlots, half: Collection[TypeSlot], dtype: DType, cast: OpDef
) -> None:
    """Let the selected slots have the half type, and cast between them and other slots."""
    boundaries = []
    for (node, output), edges in float32_consumers(graph).items():
        is_half = slots.of_output(edges[0]) in half
        others = [edge for edge in edges if (slots.of_input(edge) in half) != is_half]
        if others:
            boundaries.append((node, output, others, dtypes.float32 if is_half else dtype))
    for slot in half:
        graph.set_attr(slot.node, slot.attr, slot.value_with(dtype))
    for node, output, edges, target in boundaries:
        _redirect(graph, edges, _add_cast(graph, node, output, target, cast))


def round_slots(
    graph: Graph, slots: TypeSlots, half: Collection[TypeSlot], dtype: DType, cast: OpDef
) -> None:
    """Round all values that selected slots read or return to the half type, and keep float32."""
    for (node, output), edges in float32_consumers(graph).items():
        is_half = slots.of_output(edges[0]) in half
        readers = [edge for edge in edges if is_half or slots.of_input(edge) in half]
        # What passes to the next iteration was rounded before, and `Merge` must read it directly.
        readers = [edge for edge in readers if not is_back_edge(edge)]
        if readers:
            rounded = _add_cast(graph, node, output, dtype, cast)
            _redirect(graph, readers, _add_cast(graph, rounded, 0, dtypes.float32, cast))


def _add_cast(graph: Graph, source: Node, output: int, dtype: DType, cast: OpDef) -> Node:
    """Add a cast of an output, named as TensorFlow names it, on the device of its node."""
    stem = f"{source.name}-{output}-CastTo{_SHORT_NAMES[dtype.name]}"
    names = (f"{stem}-{number}-AutoMixedPrecision" for number in count())
    node = graph.add_node(
        next(name for name in names if not graph.has_node(name)),
        cast,
        [(source, output)],
        attrs=cast.with_defaults({"SrcT": source.output_types[output].base_dtype, "DstT": dtype}),
        device=source.device,
    )
    node.assigned_device = source.assigned_device
    return node


def _redirect(graph: Graph, edges: Iterable[Edge], source: Node) -> None:
    for edge in edges:
        graph.replace_input(edge.dst, edge.dst_input, source, 0)
