"""Determine which inputs and outputs are in host memory on a device with its own (clause P2).

Semantics: `tensorflow/core/framework/memory_types.cc`, `tensorflow/core/common_runtime/
memory_types.cc` (EnsureMemoryTypes). In host memory are strings, handles and variants, the
arguments that a kernel declares as `host_memory` or `static`, and all those of a `host` kernel.
Copies are inserted where producer and consumer use different memories.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from graphmill.dtypes import resource, string, variant
from graphmill.graph.algorithms import is_back_edge
from graphmill.graph.node_roles import is_argument_or_result
from graphmill.lowering.kernel_lookup import try_find_kernel
from graphmill.ops.definition.system_ops import COPY_TO_DEVICE, COPY_TO_HOST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.dtypes import DType
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Edge, Node
    from graphmill.ops.definition.op_def import OpDef
    from graphmill.runtime.devices.device import Device
    from graphmill.runtime.kernels.kernel_registry import KernelRegistry


class MemoryTypes(NamedTuple):
    """For each input and output of a node, whether it is in host memory."""

    inputs: tuple[bool, ...]
    outputs: tuple[bool, ...]


class MemoryTypeFinder:
    """Determine the memory types of nodes from their kernels; results are cached."""

    def __init__(self, kernels: KernelRegistry) -> None:
        self._kernels = kernels
        self._found: dict[tuple[Node, str], MemoryTypes] = {}

    def of(self, node: Node, device: Device) -> MemoryTypes:
        """Return the memory types of a node on a device with its own memory."""
        key = (node, device.name)
        types = self._found.get(key)
        if types is None:
            types = self._found[key] = self._look_up(node, device)
        return types

    def input_on_host(self, edge: Edge, device: Device) -> bool:
        """Return whether a data edge's consumer, on `device`, reads it from host memory."""
        return not device.is_host_memory and self.of(edge.dst, device).inputs[edge.dst_input]

    def output_on_host(self, edge: Edge, device: Device) -> bool:
        """Return whether a data edge's producer, on `device`, writes it to host memory."""
        return not device.is_host_memory and self.of(edge.src, device).outputs[edge.src_output]

    def _look_up(self, node: Node, device: Device) -> MemoryTypes:
        inputs = [is_always_host(dtype) for dtype in node.input_types]
        outputs = [is_always_host(dtype) for dtype in node.output_types]
        choice = None
        if not is_argument_or_result(node) and node.op not in node.graph.library:
            choice = try_find_kernel(self._kernels, node, device)
        if choice is not None:
            kernel = choice.definition
            if kernel.host:
                return MemoryTypes((True,) * len(inputs), (True,) * len(outputs))
            for name in {*kernel.host_memory, *kernel.static}:
                _mark(inputs, node.op_def.input_ranges(node.attrs).get(name))
                _mark(outputs, node.op_def.output_ranges(node.attrs).get(name))
        return MemoryTypes(tuple(inputs), tuple(outputs))


def is_always_host(dtype: DType) -> bool:
    """Return whether values of a type are in host memory on every device."""
    return dtype.base_dtype in (string, resource, variant)


def ensure_memory_types(graph: Graph, device: Device, finder: MemoryTypeFinder) -> None:
    """Insert copies into a device's partition where a value is in the wrong memory."""
    if device.is_host_memory:
        return
    copies: dict[tuple[Node, int, bool], Node] = {}
    for node in graph.nodes:
        for edge in list(node.in_edges):
            if is_back_edge(edge) or edge.dst.input_types[edge.dst_input].is_ref:
                continue
            to_host = finder.input_on_host(edge, device)
            if to_host == finder.output_on_host(edge, device):
                continue
            key = (edge.src, edge.src_output, to_host)
            copy = copies.get(key)
            if copy is None:
                copy = copies[key] = _add_copy(graph, edge, to_host)
            graph.replace_input(node, edge.dst_input, copy, 0)


def _add_copy(graph: Graph, edge: Edge, to_host: bool) -> Node:
    op_def: OpDef = COPY_TO_HOST if to_host else COPY_TO_DEVICE
    dtype = edge.src.output_types[edge.src_output].base_dtype
    name = f"{edge.src.name}/{op_def.name}_{edge.src_output}"
    while graph.has_node(name):
        name += "_"
    node = graph.add_node(
        name, op_def, [(edge.src, edge.src_output)], attrs={"T": dtype}, device=edge.src.device
    )
    node.assigned_device = edge.src.assigned_device
    return node


def _mark(flags: list[bool], span: Sequence[int] | None) -> None:
    if span is not None:
        flags[span[0] : span[1]] = [True] * (span[1] - span[0])
