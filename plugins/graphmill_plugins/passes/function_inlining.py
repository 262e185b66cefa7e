"""Replace function calls by the bodies of the functions.

Semantics: `tensorflow/core/common_runtime/inline_function_utils.cc`. Calls in a graph with control
flow of version 1 are not inlined: if the call is dead, its whole body would have to be dead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from graphmill import dtypes
from graphmill.errors import OpError
from graphmill.spi import CallKind
from graphmill.spi.graphs import called_functions
from graphmill.spi.passes import (
    PlacementOptions,
    function_with_effects,
    inline_call,
    is_plain_call,
    overrides_op,
    place,
    place_body,
)
from graphmill_plugins.passes.options import is_enabled

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from graphmill.spi import FuncAttr, Graph, Node
    from graphmill.spi.graphs import FunctionBody, FunctionLibrary
    from graphmill.spi.passes import PassOptions

_MAX_NODES: Final = 100_000
_MAX_CALLS: Final = 2_000
"""Calls that are inlined besides those that the graph itself has: functions that call each other
twice would double the graph with each level. Further calls are not inlined, and a timeout can end
them."""
_MAX_DEPTH: Final = 50


def inline_functions(graph: Graph, options: PassOptions) -> None:
    """Inline calls, including nested ones, except for calls of recursive functions."""
    if not is_enabled("function_inlining", options.config) or _has_control_flow(graph):
        return
    if _inline_all(graph, options) and len(options.devices) > 1:
        _place_inlined(graph, options)


def _inline_all(graph: Graph, options: PassOptions) -> bool:
    """Inline all calls that can be inlined; return whether there were any."""
    # Each call with the functions that it was inlined from, to detect recursion.
    pending: list[tuple[Node, tuple[str, ...]]] = [
        (n, ()) for n in graph.nodes if _is_call(n, options)
    ]
    num_inlined, counter = 0, _CallCounter(graph.library, options)
    max_calls = _MAX_CALLS + len(pending)
    bodies = _Bodies(options)
    while pending:
        call, chain = pending.pop()
        name = _callee(call).name
        if name in chain or len(chain) >= _MAX_DEPTH or len(graph) > _MAX_NODES:
            continue
        if num_inlined + counter.calls_of(name) > max_calls:
            continue
        prepared = bodies.of(call)
        if prepared is None:
            continue
        inlined = inline_call(graph, call, prepared.body, options, prepared.requests.__getitem__)
        pending.extend((node, (*chain, name)) for node in inlined if _is_call(node, options))
        num_inlined += 1
    return num_inlined > 0


class _CallCounter:
    """Counts the calls in the expansion of a function: its own, and those of its callees."""

    def __init__(self, library: FunctionLibrary, options: PassOptions) -> None:
        self._library = library
        self._ops = options.host.ops
        self._counts: dict[str, int] = {}

    def calls_of(self, name: str, depth: int = 0) -> int:
        """Return the number of calls in the expansion of a function, at least 1."""
        count = self._counts.get(name)
        if count is None and depth < _MAX_DEPTH:
            self._counts[name] = 1  # of a recursive function, which is not inlined again
            inner = sum(self.calls_of(callee, depth + 1) for callee in self._callees(name))
            count = self._counts[name] = 1 + inner
        return count or 1

    def _callees(self, name: str) -> list[str]:
        if name not in self._library:
            return []
        callees = []
        for node in self._library.get(name).node_def:
            if node.op in self._library:
                callees.append(node.op)
            elif node.op in self._ops:
                callees += (
                    node.attr[call.attr].func.name
                    for call in self._ops.get(node.op).calls
                    if call.kind is CallKind.ONCE and call.attr in node.attr
                )
        return callees


class _PreparedBody(NamedTuple):
    """A body that is copied to the place of calls, and is not changed.

    Attributes:
        body: the body, after the passes of earlier phases.
        requests: the device to request for the copy of each node.
    """

    body: FunctionBody
    requests: dict[Node, str]


class _Bodies:
    """Prepares the body of each function once for all calls on a device."""

    def __init__(self, options: PassOptions) -> None:
        self._options = options
        self._prepared: dict[Hashable, _PreparedBody | None] = {}

    def of(self, call: Node) -> _PreparedBody | None:
        """Return the body for a call; None if the call cannot be inlined."""
        function = _callee(call)
        key = function, call.assigned_device
        if key not in self._prepared:
            self._prepared[key] = self._prepare(function, call)
        return self._prepared[key]

    def _prepare(self, function: FuncAttr, call: Node) -> _PreparedBody | None:
        try:
            body = _body(function, call, self._options)
        except OpError:
            return None  # the call reports the error if it is run
        if _has_control_flow(body.graph):
            return None
        request = _requests_of(call, self._options)
        return _PreparedBody(body, {node: request(node) for node in body.graph.nodes})


def _body(function: FuncAttr, call: Node, options: PassOptions) -> FunctionBody:
    """Return the body for a call, after the passes of earlier phases."""
    body = function_with_effects(function.name, function.attrs, call.graph.library, options)
    devices = list(options.devices)
    device = next((d for d in devices if d.name == call.assigned_device), devices[0])
    has_passes = any(map(options.host.passes.scheduled_in, ("PRE_PLACEMENT", "POST_PLACEMENT")))
    if has_passes:
        place_body(body.graph, device, options)
        body = body.without_lost_nodes()
    return body


def _place_inlined(graph: Graph, options: PassOptions) -> None:
    """Place the nodes of inlined bodies; all others keep their devices."""
    config = options.config
    place(
        graph,
        PlacementOptions(
            options.devices,
            options.host.kernels,
            allow_soft_placement=config.allow_soft_placement,
            log=config.log_device_placement,
        ),
    )


def _is_call(node: Node, options: PassOptions) -> bool:
    """Return whether a node only calls one function with its inputs."""
    if not is_plain_call(node):
        return False
    if node.op in node.graph.library:
        return True
    host, device = options.host, options.devices.host
    choice = host.kernels.try_find(node.op_def, node.attrs, device.device_type, device.backends)
    # Another plugin's kernel for the op may behave differently from the op's traits.
    return choice is None or not overrides_op(choice, node.op, host.ops)


def _callee(call: Node) -> FuncAttr:
    (function,) = called_functions(call)
    return function


def _has_control_flow(graph: Graph) -> bool:
    return any(node.op_def.traits.may_be_dead for node in graph.nodes)


def _requests_of(call: Node, options: PassOptions) -> Callable[[Node], str]:
    """Return a function that returns the requested device of the copy of a body's node.

    That is the device of the call if the node has none. The placer decides if there is no kernel
    for the call's device, or if the node uses a resource, which may be on another device. Calls
    that are not inlined behave the same.
    """
    name, kernels = call.assigned_device, options.host.kernels
    device = next((d for d in options.devices if d.name == name), None)

    def request(node: Node) -> str:
        if node.device or any(t.base_dtype is dtypes.resource for t in node.input_types):
            return node.device
        if device is None or _is_call(node, options):
            return name
        kernel = kernels.try_find(node.op_def, node.attrs, device.device_type, device.backends)
        return "" if kernel is None else name

    return request
