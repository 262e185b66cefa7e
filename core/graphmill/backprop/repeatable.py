"""Check that a function may be recomputed for its gradient: that it only computes and reads."""

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


_BACKENDS: Final = ("numpy",)  # the device is not known while a graph is built


def check_repeatable(function: Any, name: str, graph: Graph, host: Host) -> None:
    """Check that a gradient function recomputes no op with random results or effects.

    Args:
        function: the `FunctionDef` of the gradient, with the needed part of the body.
        name: the function that it is the gradient of, for messages.
        graph: the graph whose library has the functions that it calls.
        host: supplies the kernels, which may have more effects than their ops declare.

    Raises:
        UnimplementedError: it would draw different random numbers, or change state twice.
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
    what = "draw different random numbers" if "rng" in effects else "have its effect twice"
    raise UnimplementedError(
        f"the gradient of function {name!r} runs its body again, and this op would {what}; use a "
        "stateless op instead, or build the body without a function",
        node=node.name,
        op_type=node.op,
    )


def _effects_of_kernels(op_def: OpDef, host: Host) -> frozenset[str]:
    if op_def.name not in host.ops:
        return frozenset()  # a function
    kernels = host.kernels.registrations(op_def, _BACKENDS)
    return frozenset().union(*(entry.definition.effects for entry in kernels))


def _leaves_state(traits: OpTraits) -> bool:
    """Return whether an op changes no state that outlives the step."""
    return traits.only_reads or traits.per_step_state or traits.source is Source.VARIABLE
