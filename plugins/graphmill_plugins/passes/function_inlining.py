"""Replace function calls by the bodies of the functions.

Semantics: `tensorflow/core/common_runtime/inline_function_utils.cc`. Calls in a graph with control
flow of version 1 are not inlined: if the call is dead, its whole body would have to be dead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill import dtypes
from graphmill.errors import OpError
from graphmill.spi import CallKind
from graphmill.spi.compilers import supplier_of
from graphmill.spi.graphs import called_functions, calls_of, requested_executor
from graphmill.spi.passes import (
    PlacementOptions,
    effects_of,
    function_with_effects,
    place,
    place_body,
)
from graphmill_plugins.passes.body_copy import BodyCopy, free_name_in
from graphmill_plugins.passes.options import is_enabled

if TYPE_CHECKING:
    from graphmill.spi import Graph, Node
    from graphmill.spi.graphs import FunctionBody
    from graphmill.spi.passes import PassOptions

_MAX_NODES: Final = 100_000
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
    has_inlined = False
    while pending:
        call, chain = pending.pop()
        name, attrs = _callee(call)
        if name in chain or len(chain) >= _MAX_DEPTH or len(graph) > _MAX_NODES:
            continue
        try:
            body = _body(name, attrs, call, options)
        except OpError:
            continue  # the call reports the error if it is run
        if _has_control_flow(body.graph):
            continue
        inlined = _Inliner(graph, call, body, options).inline()
        pending.extend((node, (*chain, name)) for node in inlined if _is_call(node, options))
        has_inlined = True
    return has_inlined


def _body(name: str, attrs: Any, call: Node, options: PassOptions) -> FunctionBody:
    """Return the body for a call, after the passes of earlier phases."""
    body = function_with_effects(name, attrs, call.graph.library, options)
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
    called = calls_of(node)
    is_plain = len(called) == 1 and called[0].kind is CallKind.ONCE
    if not is_plain or called[0].call.first_input or effects_of(node.op_def):
        return False
    if requested_executor(node):
        return False
    if node.op in node.graph.library:
        return True
    host, device = options.host, options.devices.host
    choice = host.kernels.try_find(node.op_def, node.attrs, device.device_type, device.backends)
    # Another plugin's kernel for the op may behave differently from the op's traits.
    return choice is None or supplier_of(choice.owner) == supplier_of(host.ops.provenance(node.op))


def _callee(call: Node) -> tuple[str, Any]:
    (function,) = called_functions(call)
    return function.name, function.attrs


def _has_control_flow(graph: Graph) -> bool:
    return any(node.op_def.traits.may_be_dead for node in graph.nodes)


class _Inliner:
    """Inlines one call."""

    def __init__(self, graph: Graph, call: Node, body: FunctionBody, options: PassOptions) -> None:
        self.graph = graph
        self.call = call
        self.body = body
        self.options = options
        self.ops = options.host.ops
        self.kernels = options.host.kernels
        self.devices = options.devices
        self.args: list[tuple[Node, int]] = call.inputs
        self.before: Node | None = None

    def inline(self) -> list[Node]:
        """Replace the call by the nodes of the body; return these nodes."""
        call = self.call
        self.before = self._gather("before", [edge.src for edge in call.control_in_edges])
        if self.before is not None:
            # The whole body, and so each argument, must wait for the call's control inputs.
            self.args = [self._waiting_argument(index) for index in range(len(self.args))]
        copy = BodyCopy(self.graph, call.name, self.body, self.args, self.before, self._request)
        if len(self.devices) == 1:
            for node in copy.nodes.values():
                node.assigned_device = call.assigned_device
        self._replace_call(copy)
        return list(copy.nodes.values())

    def _request(self, node: Node) -> str:
        """Return the requested device of a body's node; that of the call if it has none.

        The placer decides if there is no kernel for the call's device, or if the node uses a
        resource, which may be on another device. Calls that are not inlined behave the same.
        """
        if node.device or any(t.base_dtype is dtypes.resource for t in node.input_types):
            return node.device
        name = self.call.assigned_device
        device = next((d for d in self.devices if d.name == name), None)
        if device is None or _is_call(node, self.options):
            return name
        kernel = self.kernels.try_find(node.op_def, node.attrs, device.device_type, device.backends)
        return "" if kernel is None else name

    def _replace_call(self, copy: BodyCopy) -> None:
        followers = [edge.dst for edge in self.call.out_edges if edge.is_control]
        for output, (src, src_output) in enumerate(copy.results):
            self.graph.redirect(self.call, output, src, src_output)
        if followers:
            # Nodes that waited for the call wait for the effects and results of the body.
            done = [*copy.effects(self.options), *(src for src, _ in copy.results)]
            after = self._gather("after", list(dict.fromkeys(done)))
            for follower in followers:
                if after is not None and follower is not self.graph.sink:
                    self.graph.add_control_edge(after, follower)
        self.graph.withdraw([self.call])

    def _gather(self, name: str, sources: list[Node]) -> Node | None:
        """Return a node that runs after all `sources`; None if there are none."""
        sources = [src for src in sources if src is not self.graph.source]
        if not sources:
            return None
        node = self.graph.add_node(
            free_name_in(self.graph, self.call.name, name),
            self.ops.get("NoOp"),
            control_inputs=sources,
            attrs={},
        )
        node.assigned_device = self.call.assigned_device
        return node

    def _waiting_argument(self, index: int) -> tuple[Node, int]:
        src, output = self.args[index]
        dtype = src.output_types[output].base_dtype
        identity = self.ops.get("Identity")
        node = self.graph.add_node(
            free_name_in(self.graph, self.call.name, f"argument_{index}"),
            identity,
            [(src, output)],
            [] if self.before is None else [self.before],
            identity.with_defaults({"T": dtype}),
        )
        node.assigned_device = self.call.assigned_device
        return node, 0
