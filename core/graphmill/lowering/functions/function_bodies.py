"""Run the graph passes on function bodies, for executors and compilers alike.

A session's graph meets the passes of each phase while it is lowered. So does the body of a function
that the graph calls, whoever computes it then: an executor, a compiled cluster, a gradient. A body
that is inlined meets the phases before that, and those after it as a part of the graph around.
Bodies that a pass made of nodes of the graph have met all of them.

Semantics: `ProcessFunctionLibraryRuntime::InstantiateMultiDevice` in
tensorflow/core/common_runtime/process_function_library_runtime.cc.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.graph.node_roles import is_argument_or_result
from graphmill.lowering.passes import run_passes
from graphmill.lowering.placement.placer import PlacementOptions, place
from graphmill.lowering.policies.node_effects import function_with_effects

if TYPE_CHECKING:
    from graphmill.graph.functions.function_body import FunctionBody
    from graphmill.graph.functions.function_library import FunctionLibrary
    from graphmill.graph.graph import Graph
    from graphmill.lowering.passes import PassOptions
    from graphmill.ops.attrs.attr_types import FuncAttr
    from graphmill.runtime.devices.device import Device


def body_as_run(
    function: FuncAttr, library: FunctionLibrary, device: Device | None, options: PassOptions
) -> FunctionBody:
    """Return the body of a function as it runs on a device, the caller's to change.

    Args:
        function: its name, and what it is instantiated with.
        library: the functions of the graph.
        device: where it is called; None where that is not known, and no pass sees the body then.
        options: of the session.

    Raises:
        OpError: there is no such function, or it is malformed, or a pass refused its body.
    """
    made = library.body(function.name)
    if made is not None:
        return made.copy(library)
    if options.functions is None or device is None:
        return function_with_effects(function.name, function.attrs, library, options)
    return options.functions(device).body(function.name, function.attrs)


def lower_body(graph: Graph, device: Device, options: PassOptions, *, log: bool = False) -> None:
    """Run the passes up to `POST_REWRITE_FOR_EXEC` on a body, and place it in between.

    Args:
        graph: the body.
        device: where it is called. Nodes without a request are there if it has kernels for them;
            arguments and results in any case.
        options: of the session.
        log: whether placements are logged, if the session asks for that.
    """
    place_body(graph, device, options, log=log)
    run_passes("POST_REWRITE_FOR_EXEC", graph, options)


def place_body(graph: Graph, device: Device, options: PassOptions, *, log: bool = False) -> None:
    """Place a body, with the passes before and after that; arguments are those of `lower_body`."""
    run_passes("PRE_PLACEMENT", graph, options)
    for node in graph.nodes:
        if is_argument_or_result(node) and node.attrs["T"].name != "resource":
            node.assigned_device = device.name
    place(graph, placement_options(options, device, log=log))
    run_passes("POST_PLACEMENT", graph, options)


def placement_options(
    options: PassOptions, default_device: Device | None, *, log: bool = True
) -> PlacementOptions:
    """Return how a session's nodes are placed; by default on `default_device`, if there is one."""
    config = options.config
    return PlacementOptions(
        options.devices,
        options.host.kernels,
        allow_soft_placement=config.allow_soft_placement,
        log=log and config.log_device_placement,
        default_device=default_device,
    )
