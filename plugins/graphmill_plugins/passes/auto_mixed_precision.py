"""Compute parts of a graph in a half type, if the session requests it.

Semantics: `tensorflow/core/grappler/optimizers/auto_mixed_precision.cc`. The toggles of
`RewriterConfig`, and `optimizers`, request it:

- `auto_mixed_precision`: on devices that declare a half type (`Device.half_type`).
- `auto_mixed_precision_onednn_bfloat16`, `auto_mixed_precision_mkl`: in bfloat16 on CPUs.
- `auto_mixed_precision_cpu`: on CPUs, as a GPU would in float16: values are rounded to float16, and
  kernels compute in float32.

Nodes that are fetched keep their types. So do nodes whose kernel comes from another supplier than
their op, unless the kernel for the half type comes from the same supplier: otherwise it might
compute something else.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from graphmill import dtypes
from graphmill.spi import topological_order
from graphmill.spi.compilers import supplier_of
from graphmill.spi.graphs import is_result
from graphmill.spi.passes import free_name_in, is_overridden, kernels_of_node
from graphmill_plugins.passes.half_casts import convert_slots, round_slots
from graphmill_plugins.passes.half_selection import HalfSelection
from graphmill_plugins.passes.type_slots import TypeSlots

if TYPE_CHECKING:
    from graphmill.dtypes import DType
    from graphmill.spi import Device, Graph, HalfPrecision, Node
    from graphmill.spi.compilers import KernelChoice
    from graphmill.spi.passes import PassOptions
    from graphmill_plugins.passes.type_slots import TypeSlot

_HOST_TYPE: Final = "CPU"
_ONEDNN_VARIABLE: Final = "TF_ENABLE_ONEDNN_OPTS"
_HALF_TYPES: Final = {"float16": dtypes.float16, "bfloat16": dtypes.bfloat16}


class Mode(NamedTuple):
    """One kind of mixed precision.

    Attributes:
        half: the half type.
        devices: the devices whose nodes are converted.
        rounds: whether values are only rounded to the half type.
    """

    half: DType
    devices: tuple[Device, ...]
    rounds: bool = False


def convert(graph: Graph, options: PassOptions) -> None:
    """Let nodes of the graph compute in the half types that the session requests."""
    for mode in modes_of(options):
        _convert(graph, options, mode)


def modes_of(options: PassOptions) -> list[Mode]:
    """Return the session's requests, for devices that it has."""
    rewrite = options.config.graph_options.rewrite_options
    if rewrite.disable_meta_optimizer:
        return []

    def requests(name: str) -> bool:
        toggle = getattr(rewrite, name)
        return toggle in (rewrite.ON, rewrite.AGGRESSIVE) or name in rewrite.optimizers

    modes = []
    if requests("auto_mixed_precision"):
        for name, half in _HALF_TYPES.items():
            modes.append(Mode(half, tuple(d for d in options.devices if d.half_type == name)))
    cpus = tuple(device for device in options.devices if device.device_type == _HOST_TYPE)
    if _uses_onednn() and (
        requests("auto_mixed_precision_onednn_bfloat16") or requests("auto_mixed_precision_mkl")
    ):
        modes.append(Mode(dtypes.bfloat16, cpus))
    if requests("auto_mixed_precision_cpu"):
        modes.append(Mode(dtypes.float16, cpus, rounds=True))
    return [mode for mode in modes if mode.devices]


def _uses_onednn() -> bool:
    """Return whether TensorFlow would use oneDNN, without which it has no bfloat16 on CPUs."""
    return os.environ.get(_ONEDNN_VARIABLE, "1").lower() not in ("0", "false")


def _convert(graph: Graph, options: PassOptions, mode: Mode) -> None:
    cast = options.host.ops.get("Cast")
    devices = {device.name: device for device in mode.devices}
    fetched = _fetched_nodes(graph)

    def can_be_half(slot: TypeSlot) -> bool:
        node = slot.node
        device = devices.get(node.assigned_device)
        if device is None or node in fetched or not slot.allows(mode.half):
            return False
        half = options.host.kernels.try_find(
            node.op_def, slot.attrs_with(mode.half), device.device_type, device.backends
        )
        return half is not None and _may_replace(half, node, options)

    def precision(node: Node) -> HalfPrecision:
        declared: HalfPrecision = getattr(node.op_def.traits, mode.half.name)
        return declared

    for node in graph.nodes:
        is_converted = node.assigned_device in devices and node not in fetched
        if is_converted and node.op_def.traits.half_form and not is_overridden(node, options):
            graph.replace_node(node, _half_form(graph, node, options))
    slots = TypeSlots(topological_order(graph))
    half = HalfSelection(slots, precision, can_be_half, cast).select()
    if half:
        (round_slots if mode.rounds else convert_slots)(graph, slots, half, mode.half, cast)


def _may_replace(half: KernelChoice, node: Node, options: PassOptions) -> bool:
    """Return whether the kernel for a half type computes what the node's kernel computes."""
    if not is_overridden(node, options):
        return True
    own = (choice for choice in kernels_of_node(node, options) if choice is not None)
    return all(supplier_of(choice.owner) == supplier_of(half.owner) for choice in own)


def _half_form(graph: Graph, node: Node, options: PassOptions) -> Node:
    """Add the form of a node that takes half types; its other type attrs have one allowed value."""
    op_def = options.host.ops.get(node.op_def.traits.half_form)
    fixed = {attr.name: attr.allowed[0] for attr in op_def.attrs if len(attr.allowed) == 1}
    attrs = {name: value for name, value in node.attrs.items() if op_def.has_attr(name)}
    form = graph.add_node(
        free_name_in(graph, node.name, "half"),
        op_def,
        node.sources,
        [edge.src for edge in node.control_in_edges if edge.src is not graph.source],
        op_def.with_defaults(fixed | attrs),
        node.device,
    )
    form.assigned_device = node.assigned_device
    return form


def _fetched_nodes(graph: Graph) -> set[Node]:
    """Return the nodes whose outputs are fetched by name, unlike the results of a function.

    A result of a step is named after the tensor that it returns. A call that is fetched may have
    been replaced by the nodes of its function, which nobody fetches by name.
    """
    fetched = set()
    for node in graph.nodes:
        if is_result(node):
            (edge,) = node.in_edges
            if node.name.startswith(f"_retval_{edge.src.name}_{edge.src_output}_"):
                fetched.add(edge.src)
    return fetched
