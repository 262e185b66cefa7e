"""Which nodes may be in a cluster, and why the others may not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.errors import OpError
from graphmill.graph.function_body import instantiate_function
from graphmill.ops.effects import effects_of
from graphmill_plugins.jit.functionalize.liveness import CONTROL_FLOW_OPS
from graphmill_plugins.jit.regions.growing_lists import GrowingLists, are_of_shapes
from graphmill_plugins.jit.regions.refusal import refuses_nothing
from graphmill_plugins.jit.tracing.traced_ops import (
    FUNCTION_ATTRS,
    HANDLE_TYPES,
    HANDLED,
    LIST_VALUE_OPS,
    called_functions,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphmill.dtypes import DType
    from graphmill.graph.node import Node
    from graphmill.plugin.host import Host
    from graphmill_plugins.jit.regions.refusal import Refusal

SOURCES: Final = frozenset({"Const", "VariableV2", "Variable", "VarHandleOp"})
"""Nodes that give the same in every step: each cluster that reads one has it itself."""

_BOUNDARY: Final = frozenset({"_Arg", "_Retval", "_DeviceArg", "_DeviceRetval", "_Cluster"})
_UNTRACED_TYPES: Final = frozenset(
    {"string", "int4", "uint4", "int2", "uint2", "float4_e2m1fn"}  # several numbers in an octet
)


class Eligibility:
    """Answers for the nodes of one graph; remembers what it found of functions.

    Args:
        host: whose kernels and ops.
        refusal: returns why the session's policy refuses a node, or None. A function with such a
            node stays a call: it is an error when it is called, and not before.

    Attributes:
        lists: answers for lists that grow in loops.
    """

    def __init__(self, host: Host, refusal: Refusal = refuses_nothing) -> None:
        self._host = host
        self._refusal = refusal
        self._functions: dict[str, str | None] = {}
        self.lists = GrowingLists(host.ops)

    def why_not(self, node: Node) -> str | None:
        """Return why a node cannot be in a cluster, or None if it can."""
        if node.op in _BOUNDARY:
            return "it is where the graph begins or ends"
        if node.op in CONTROL_FLOW_OPS:
            return "it says by dead values what runs"
        reason = _bad_type(_types(node), node.op)
        if reason is not None:
            return reason
        functions = called_functions(node)
        if functions:
            return self._why_not_functions(functions, node)
        if node.op in _STITCHES and not are_of_shapes(_indices(node)):
            return "the step's values say where its rows go"
        if node.op in HANDLED or node.op in SOURCES or _is_of_lists(node):
            return None
        found = self._host.kernels.try_find(node.op_def, node.attrs, "CPU", ("jax",))
        if found is None:
            return "no kernel of it can be traced"
        definition = found.definition
        if definition.keeps_variable:
            return self._why_not_kept(node)
        effects = definition.effects | effects_of(node.op_def)
        if effects:
            return f"it has effects: {', '.join(sorted(effects))}"
        return None if definition.is_traceable else "its kernel needs concrete values or a context"

    def _why_not_kept(self, node: Node) -> str | None:
        """Return why what a node keeps cannot be shared with who interprets it, or None."""
        found = self._host.kernels.try_find(node.op_def, node.attrs, "CPU", ("numpy",))
        if found is None or not found.definition.variable:
            return "the kernel that interprets it keeps no variable"
        return None

    def _why_not_functions(self, names: Iterable[str], node: Node) -> str | None:
        reasons = (self._why_not_function(name, node) for name in names)
        return next((reason for reason in reasons if reason is not None), None)

    def _why_not_function(self, name: str, node: Node) -> str | None:
        if name not in self._functions:
            self._functions[name] = f"function {name} calls itself"
            self._functions[name] = self._look_into(name, node)
        return self._functions[name]

    def _look_into(self, name: str, node: Node) -> str | None:
        try:
            body = instantiate_function(name, {}, node.graph.library, self._host.ops)
        except OpError as error:
            return f"function {name}: {error.message}"
        for inner in body.graph.nodes:
            if inner.op in ("_Arg", "_Retval"):
                continue
            reason = self._refusal(inner) or self.why_not(inner)
            if reason is not None:
                return f"{inner.name} ({inner.op}) in function {name}: {reason}"
        return None


def _is_of_lists(node: Node) -> bool:
    """Return whether a node computes a list of lists, element by element."""
    return node.op in LIST_VALUE_OPS and node.input_types[0].base_dtype.name == "variant"


def _indices(node: Node) -> list[Node]:
    """Return what says where the rows of a `DynamicStitch` go."""
    return [edge.src for edge in node.in_edges[: len(node.in_edges) // 2]]


def _types(node: Node) -> list[DType]:
    """Return the types of what a node takes and gives, but for the texts that an `Assert` tells."""
    if node.op != "Assert":
        return [*node.input_types, *node.output_types]
    return [
        node.input_types[edge.dst_input] for edge in node.in_edges if not _is_constant(edge.src)
    ]


def _is_constant(node: Node) -> bool:
    source = node.graph.source
    return node.op == "Const" and all(edge.src is source for edge in node.control_in_edges)


def _bad_type(types: Sequence[DType], op: str) -> str | None:
    for dtype in types:
        name = dtype.base_dtype.name
        if name == "string" and op == "Const":
            continue  # who reads it tells whether it may
        if name in _UNTRACED_TYPES or dtype.is_quantized:
            return f"it has tensors of {name}"
        if name in HANDLE_TYPES and op not in HANDLED and op not in _HANDLE_OPS:
            return f"it has tensors of {name}"
    return None


_STITCHES: Final = frozenset({"DynamicStitch", "ParallelDynamicStitch"})
_HANDLE_OPS: Final = frozenset({*SOURCES, *FUNCTION_ATTRS, "Identity", *LIST_VALUE_OPS})
