"""Which functions may be recomputed for their gradient: those that only compute and read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import UnimplementedError
from graphmill.graph.formats.import_export import resolve_op
from graphmill.ops.definition.effects import effects_of
from graphmill.ops.definition.op_traits import OpTraits, Source

if TYPE_CHECKING:
    from graphmill.graph.builder import Graph
    from graphmill.ops.definition.op_def import OpDef
    from graphmill.plugin.host import Host


_BACKENDS: Final = ("numpy",)  # what a graph is built on is not known, nor needed for a promise


def check_repeatable(function: Any, name: str, graph: Graph, host: Host) -> None:
    """Check that a gradient runs nothing again that would give, or leave, something else.

    Args:
        function: the message of the gradient function, with all that it needs of the body.
        name: the function that it is the gradient of, for messages.
        graph: the graph whose library has what it calls.
        host: whose kernels may do more than their ops declare.

    Raises:
        UnimplementedError: it would draw other random numbers, or change state twice.
    """
    pending, seen = [function], set()
    while pending:
        current = pending.pop()
        for node in current.node_def:
            _check_node(node, name, graph, host)
            called = [attr.func.name for attr in node.attr.values() if attr.HasField("func")]
            called += [f.name for attr in node.attr.values() for f in attr.list.func]
            called += [node.op] if node.op in graph.library else []
            for other in called:
                if other not in seen and other in graph.library:
                    seen.add(other)
                    pending.append(graph.library.get(other))


def _check_node(node: Any, name: str, graph: Graph, host: Host) -> None:
    op_def = resolve_op(node.op, graph.ops, graph)
    effects = effects_of(op_def) | _effects_of_kernels(op_def, host)
    if _leaves_state(op_def.traits):
        effects -= {"state"}
    if not effects:
        return
    what = "give other random numbers" if "rng" in effects else "have its effect twice"
    raise UnimplementedError(
        f"the gradient of function {name!r} runs its body again, and this op would {what}; use a "
        "stateless op in its place, or build the body without a function",
        node=node.name,
        op=node.op,
    )


def _effects_of_kernels(op_def: OpDef, host: Host) -> frozenset[str]:
    if op_def.name not in host.ops:
        return frozenset()  # a function
    kernels = host.kernels.registrations(op_def, _BACKENDS)
    return frozenset().union(*(entry.definition.effects for entry in kernels))


def _leaves_state(traits: OpTraits) -> bool:
    """Return whether an op leaves all state that outlasts the step as it is."""
    return traits.only_reads or traits.per_step_state or traits.source is Source.VARIABLE
