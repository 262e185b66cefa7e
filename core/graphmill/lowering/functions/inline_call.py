"""Replace one function call by the nodes of the function's body.

Semantics: `tensorflow/core/common_runtime/inline_function_utils.cc`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.graph.functions.function_calls import calls_of, requested_executor
from graphmill.lowering.functions.body_copy import BodyCopy, free_name_in
from graphmill.ops.definition.effects import effects_of
from graphmill.ops.definition.op_traits import CallKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.graph.functions.function_body import FunctionBody
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.lowering.passes import PassOptions


def is_plain_call(node: Node) -> bool:
    """Return whether a node only calls one function with its inputs, in the same executor."""
    called = calls_of(node)
    is_once = len(called) == 1 and called[0].kind is CallKind.ONCE
    if not is_once or called[0].call.first_input or effects_of(node.op_def):
        return False
    return not requested_executor(node)


def inline_call(
    graph: Graph,
    call: Node,
    body: FunctionBody,
    options: PassOptions,
    request: Callable[[Node], str],
    *,
    keeps_name: bool = False,
) -> list[Node]:
    """Replace a call by the nodes of the body; return these nodes.

    The nodes are named `call/node`. Nodes that waited for the call wait for the effects and results
    of the body.

    Args:
        graph: the graph of the call, which is changed.
        call: the node that is replaced.
        body: the body of the function that it calls.
        options: the options of graph passes.
        request: returns the device requested for the copy of a node of the body.
        keeps_name: whether the call's name stays, as that of a node with the same outputs, because
            it is fetched, watched or a target.
    """
    return _Inliner(graph, call, body, options).inline(request, keeps_name=keeps_name)


class _Inliner:
    """Inlines one call."""

    def __init__(self, graph: Graph, call: Node, body: FunctionBody, options: PassOptions) -> None:
        self.graph = graph
        self.call = call
        self.body = body
        self.options = options
        self.ops = options.host.ops
        self.args: list[tuple[Node, int]] = call.sources
        self.before: Node | None = None

    def inline(self, request: Callable[[Node], str], *, keeps_name: bool) -> list[Node]:
        call = self.call
        self.before = self._gather("before", [edge.src for edge in call.control_in_edges])
        if self.before is not None:
            # The whole body, and so each argument, must wait for the call's control inputs.
            self.args = [self._waiting_argument(index) for index in range(len(self.args))]
        copy = BodyCopy(self.graph, call.name, self.body, self.args, self.before, request)
        if len(self.options.devices) == 1:
            for node in copy.nodes.values():
                node.assigned_device = call.assigned_device
        self._replace_call(copy, keeps_name=keeps_name)
        return list(copy.nodes.values())

    def _replace_call(self, copy: BodyCopy, *, keeps_name: bool) -> None:
        followers = [edge.dst for edge in self.call.out_edges if edge.is_control]
        for output, (src, src_output) in enumerate(copy.results):
            self.graph.redirect(self.call, output, src, src_output)
        after: Node | None = None
        if followers or keeps_name:
            done = [*copy.effects(self.options), *(src for src, _ in copy.results)]
            after = self._gather("after", list(dict.fromkeys(done)))
        for follower in followers:
            if after is not None and follower is not self.graph.sink:
                self.graph.add_control_edge(after, follower)
        self.graph.withdraw([self.call])
        if keeps_name:
            self._add_stand_in(copy.results, after)

    def _add_stand_in(self, results: list[tuple[Node, int]], after: Node | None) -> None:
        """Add a node with the name and the outputs of the call."""
        types = tuple(src.output_types[output].base_dtype for src, output in results)
        op_def = self.ops.get("IdentityN" if types else "NoOp")
        stand_in = self.graph.add_node(
            self.call.name,
            op_def,
            results,
            [] if after is None else [after],
            op_def.with_defaults({"T": types} if types else {}),
            self.call.device,
        )
        stand_in.assigned_device = self.call.assigned_device

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
