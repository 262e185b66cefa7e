"""Name nodes inside functions: `call/node` is a node of the body of the function that `call` calls.

These are the names that nodes get when a call is inlined, so `explain` and step statistics show
them. A graph is not inlined before it is pruned, so the calls around a named node are inlined here,
in a copy of the graph. Nodes inside loops, branches and calls that are not inlined have no values
of their own in a step: they run any number of times, or elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill import dtypes
from graphmill.errors import OpError, UnimplementedError
from graphmill.graph.algorithms import ancestors
from graphmill.graph.functions.function_calls import calls_of, requested_executor
from graphmill.graph.graph import Graph
from graphmill.graph.transfer_ops import NEVER_DEAD_ATTR
from graphmill.lowering.functions.inline_call import inline_call, is_plain_call
from graphmill.lowering.policies.node_effects import function_with_effects
from graphmill.ops.definition.op_traits import CallKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from graphmill.graph.functions.function_body import FunctionBody
    from graphmill.graph.node import Node
    from graphmill.lowering.passes import PassOptions

_MAX_NODES: Final = 100_000
_MAX_DEPTH: Final = 50
_SEPARATOR: Final = "/"


def with_inner_nodes(full: Graph, names: Collection[str], options: PassOptions) -> Graph:
    """Return a graph in which nodes inside functions have the given names.

    Args:
        full: the session's graph, which is not changed.
        names: names of nodes of the graph or inside functions.
        options: the options of graph passes.

    Returns:
        `full` if it has all the nodes or calls no function; else a copy in which calls are inlined:
        those around the named nodes, or all of them if a name is unknown, so that an error can
        suggest any name.

    Raises:
        UnimplementedError: a name is that of a node inside a loop, a branch or a call that is not
            inlined.
        OpError: the body of a function is malformed.
    """
    missing = [name for name in names if not full.has_node(name)]
    if not missing or not len(full.library):
        return full
    graph = Graph()
    graph.library, graph.versions = full.library, full.versions
    graph.add_copies(full.nodes)
    preserved = frozenset(names)
    unknown = [name for name in missing if not _reveal(name, graph, preserved, options)]
    if unknown:
        _inline_all(graph, preserved, options)  # for an error with similar names
    return graph


def inline_calls(graph: Graph, preserved: Collection[str], options: PassOptions) -> None:
    """Inline all calls that the pass `function_inlining` would inline.

    Args:
        graph: a graph, which is changed.
        preserved: names of calls that stay as names of nodes with the same outputs.
        options: the options of graph passes.
    """
    if not _may_be_dead(graph.nodes):
        _inline_all(graph, preserved, options)


def enclosing_node(graph: Graph, name: str) -> Node | None:
    """Return the node of a graph whose functions contain a name; None if there is none."""
    while _SEPARATOR in name:
        name = name.rpartition(_SEPARATOR)[0]
        if graph.has_node(name):
            return graph.node(name)
    return None


def _inline_all(graph: Graph, preserved: Collection[str], options: PassOptions) -> None:
    # Each call with the functions that it was inlined from, to detect recursion.
    pending: list[tuple[Node, tuple[str, ...]]] = [(node, ()) for node in graph.nodes]
    while pending:
        call, chain = pending.pop()
        if not is_plain_call(call) or len(chain) >= _MAX_DEPTH or len(graph) > _MAX_NODES:
            continue
        function = calls_of(call)[0].function
        if function.name in chain:
            continue
        try:
            body = _body(call, options)
        except OpError:
            continue  # the call reports the error if it is run
        if not _may_be_dead(body.graph.nodes):
            inlined = _inline(graph, call, body, preserved, options)
            pending.extend((node, (*chain, function.name)) for node in inlined)


def _reveal(name: str, graph: Graph, preserved: Collection[str], options: PassOptions) -> bool:
    """Inline the calls around a node; return whether the graph then contains the node."""
    while not graph.has_node(name):
        call = enclosing_node(graph, name)
        if call is None or not calls_of(call):
            return False
        reason = _why_opaque(call)
        if reason:
            raise UnimplementedError(
                f"'{name}' is inside node '{call.name}' ({call.op}), {reason}; its values have no "
                f"name in a step. Use an output of '{call.name}'",
                node=call.name,
                op_type=call.op,
            )
        body = _body(call, options)
        if _may_be_dead(body.graph.nodes):
            raise UnimplementedError(
                f"'{name}' is inside node '{call.name}' ({call.op}), whose function has control "
                "flow of version 1 and is not inlined",
                node=call.name,
                op_type=call.op,
            )
        _inline(graph, call, body, preserved, options)
    return True


def _why_opaque(call: Node) -> str:
    """Return why nodes inside the functions of a node cannot be named; "" if they can."""
    kinds = {called.kind for called in calls_of(call)}
    if kinds & {CallKind.LOOP_CONDITION, CallKind.LOOP_BODY}:
        return "which runs its functions once for each iteration"
    if CallKind.BRANCH in kinds:
        return "which runs one of its functions"
    if requested_executor(call):
        return f"whose function runs in an executor of its own ('{requested_executor(call)}')"
    if not is_plain_call(call):
        return "whose functions are not part of the step's graph"
    if _may_be_dead(ancestors([call])):
        return "which is part of control flow of version 1 and is not inlined"
    return ""


def _body(call: Node, options: PassOptions) -> FunctionBody:
    function = calls_of(call)[0].function
    return function_with_effects(function.name, function.attrs, call.graph.library, options)


def _inline(
    graph: Graph, call: Node, body: FunctionBody, preserved: Collection[str], options: PassOptions
) -> list[Node]:
    def request(node: Node) -> str:
        # A resource may be on another device; the placer finds it.
        is_elsewhere = any(t.base_dtype is dtypes.resource for t in node.input_types)
        return node.device or ("" if is_elsewhere else call.device)

    return inline_call(graph, call, body, options, request, keeps_name=call.name in preserved)


def _may_be_dead(nodes: Iterable[Node]) -> bool:
    # What the client of a partial run or of a cluster feeds is received, and never dead.
    return any(
        node.op_def.traits.may_be_dead and not node.attrs.get(NEVER_DEAD_ATTR) for node in nodes
    )
