"""The float32 types of a graph that can be changed one by one: node attrs, and their connections.

All inputs and outputs of a node whose type is one attr have the same type, so they form one slot.
An element of an attr with a list of types is a slot of its own. Inputs and outputs of a fixed
type are in slots that cannot be changed.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from graphmill import dtypes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from graphmill.dtypes import DType
    from graphmill.spi import ArgDef, Edge, Graph, Node


class TypeSlot(NamedTuple):
    """One changeable type of a node.

    Attributes:
        node: the node.
        attr: the attr with the type; "" for a fixed type.
        position: the index in an attr with a list of types; -1 for a single type.
    """

    node: Node
    attr: str
    position: int = -1

    def attrs_with(self, dtype: DType) -> dict[str, Any]:
        """Return the node's attrs with another type in the slot."""
        return {**self.node.attrs, self.attr: self.value_with(dtype)}

    def value_with(self, dtype: DType) -> Any:
        """Return the value of the slot's attr with another type in the slot."""
        if self.position < 0:
            return dtype
        types = list(self.node.attrs[self.attr])
        types[self.position] = dtype
        return tuple(types)

    def allows(self, dtype: DType) -> bool:
        """Return whether the definition of the op allows another type in the slot."""
        if not self.attr:
            return False
        allowed = self.node.op_def.attr(self.attr).allowed
        return not allowed or dtype in allowed


class TypeSlots:
    """The float32 slots of a graph, and which of them read which.

    Attributes:
        all: all slots, in topological order of their nodes.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._inputs = {node: _slots(node, node.op_def.input_args) for node in nodes}
        self._outputs = {node: _slots(node, node.op_def.output_args) for node in nodes}
        self._producers: dict[TypeSlot, list[TypeSlot]] = defaultdict(list)
        self._consumers: dict[TypeSlot, list[TypeSlot]] = defaultdict(list)
        slots: dict[TypeSlot, None] = {}
        for node in nodes:
            for edge in _float32_inputs(node):
                slot, source = self.of_input(edge), self.of_output(edge)
                slots[slot] = None
                self._producers[slot].append(source)
                self._consumers[source].append(slot)
            slots.update(
                (slot, None)
                for slot, dtype in zip(self._outputs[node], node.output_types, strict=True)
                if dtype.base_dtype is dtypes.float32
            )
        self.all = list(slots)

    def of_input(self, edge: Edge) -> TypeSlot:
        """Return the slot of the input that an edge enters."""
        return self._inputs[edge.dst][edge.dst_input]

    def of_output(self, edge: Edge) -> TypeSlot:
        """Return the slot of the output that an edge leaves."""
        return self._outputs[edge.src][edge.src_output]

    def producers(self, slot: TypeSlot) -> Sequence[TypeSlot]:
        """Return the slots whose values the slot's inputs read."""
        return self._producers.get(slot, ())

    def consumers(self, slot: TypeSlot) -> Sequence[TypeSlot]:
        """Return the slots whose inputs read the slot's values."""
        return self._consumers.get(slot, ())


def float32_consumers(graph: Graph) -> Mapping[tuple[Node, int], list[Edge]]:
    """Return the edges out of each float32 output of a graph that is read."""
    consumers: dict[tuple[Node, int], list[Edge]] = defaultdict(list)
    for node in graph.nodes:
        for edge in _float32_inputs(node):
            consumers[edge.src, edge.src_output].append(edge)
    return consumers


def _float32_inputs(node: Node) -> Iterator[Edge]:
    for edge, dtype in zip(node.in_edges, node.input_types, strict=True):
        if dtype.base_dtype is dtypes.float32:
            yield edge


def _slots(node: Node, args: Iterable[ArgDef]) -> list[TypeSlot]:
    """Return the slot of each input or output."""
    slots: list[TypeSlot] = []
    for arg in args:
        count = arg.length(node.attrs)
        if arg.type_list_attr:
            slots += [TypeSlot(node, arg.type_list_attr, index) for index in range(count)]
        else:
            slots += [TypeSlot(node, arg.type_attr)] * count
    return slots
