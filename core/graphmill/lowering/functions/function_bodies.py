"""Run graph passes on function bodies, for executors and compilers.

Lowering runs the passes of each phase on a session's graph, and also on the bodies of the functions
that it calls, whether an executor, a compiled cluster or a gradient computes them. For an inlined
body, the phases before inlining run on the body, and the later ones on the surrounding graph.
Bodies that a pass created from nodes of the graph do not run through passes again.

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
    """Return a copy of a function's body after the graph passes, as a device runs it.

    Args:
        function: name of the function, and attrs to instantiate it with.
        library: the functions of the graph.
        device: the caller's device; None if it is not known, in which case no passes are run.
        options: options of the session.

    Raises:
        OpError: the function does not exist or is malformed, or a pass rejects its body.
    """
    body = library.body(function.name)
    if body is not None:
        return body.copy(library)
    if options.functions is None or device is None:
        return function_with_effects(function.name, function.attrs, library, options)
    return options.functions(device).body(function.name, function.attrs)


def lower_body(graph: Graph, device: Device, options: PassOptions, *, log: bool = False) -> None:
    """Place a body, and run the passes up to `POST_REWRITE_FOR_EXEC` on it.

    Args:
        graph: the body.
        device: the caller's device. Arguments and results are placed there, as are nodes without a
            requested device if it has kernels for them.
        options: options of the session.
        log: whether to log placements, if the session is configured to log them.
    """
    place_body(graph, device, options, log=log)
    run_passes("POST_REWRITE_FOR_EXEC", graph, options)


def place_body(graph: Graph, device: Device, options: PassOptions, *, log: bool = False) -> None:
    """Place a body, and run the placement passes; arguments are those of `lower_body`."""
    run_passes("PRE_PLACEMENT", graph, options)
    for node in graph.nodes:
        if is_argument_or_result(node) and node.attrs["T"].name != "resource":
            node.assigned_device = device.name
    place(graph, placement_options(options, device, log=log))
    run_passes("POST_PLACEMENT", graph, options)


def placement_options(
    options: PassOptions, default_device: Device | None, *, log: bool = True
) -> PlacementOptions:
    """Return the placement options of a session, with `default_device` preferred if not None."""
    config = options.config
    return PlacementOptions(
        options.devices,
        options.host.kernels,
        allow_soft_placement=config.allow_soft_placement,
        log=log and config.log_device_placement,
        default_device=default_device,
    )
