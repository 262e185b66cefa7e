"""Decide which nodes may be in a cluster, and why the others may not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.errors import OpError
from graphmill.spi import FuncAttr, Source
from graphmill.spi.graphs import AttrsCache, is_argument_or_result
from graphmill_plugins.jit.analysis.refusal import refuses_nothing
from graphmill_plugins.jit.analysis.waiting import WaitingNodes
from graphmill_plugins.jit.idioms.list_length_analysis import ListLengthAnalysis
from graphmill_plugins.jit.idioms.sparse_dedup_analysis import NOT_DISTINCT
from graphmill_plugins.jit.ir.handles import HANDLE_TYPES, VARIANT
from graphmill_plugins.jit.ir.invariant_nodes import is_source
from graphmill_plugins.jit.ir.lowering_choices import (
    LoweringChoice,
    LoweringChoices,
    followed_functions,
)

if TYPE_CHECKING:
    from graphmill.dtypes import DType
    from graphmill.spi import Device, Host, Node
    from graphmill_plugins.jit.analysis.refusal import Refusal
    from graphmill_plugins.jit.ir.function_bodies import BodyProvider

_UNTRACED_TYPES: Final = frozenset(
    {"string", "int4", "uint4", "int2", "uint2", "float4_e2m1fn"}  # types below 8 bits are packed
)
_MAX_CALLS: Final = 1_000
"""Maximum number of calls in the expansion of a function in a cluster."""
_VARIANTS: Final = frozenset({VARIANT})


class Eligibility:
    """Decides for the nodes of one graph; caches the results for functions.

    Args:
        host: provides the kernels and ops.
        refusal: returns why the session's policy refuses a node, or None. A function with such a
            node stays a call, so that the error is raised only if it is called.
        device: where the nodes run; by default the host's processor.
        bodies: returns the bodies of called functions; by default those of the library.

    Attributes:
        choices: how a compiler computes the nodes.
        waits: finds nodes that may block.
        lists: analyses the lengths of lists that grow in loops.
    """

    def __init__(
        self,
        host: Host,
        refusal: Refusal = refuses_nothing,
        device: Device | None = None,
        bodies: BodyProvider | None = None,
    ) -> None:
        self._host = host
        self.choices = LoweringChoices(host, device, bodies)
        self._refusal = refusal
        self._functions: dict[str, str | None] = {}
        self._num_calls: dict[str, int] = {}
        self._sizes: dict[str, int] = {}
        self._reasons: AttrsCache[tuple[str | None]] = AttrsCache()
        self.waits = WaitingNodes(self.choices)
        self.lists = ListLengthAnalysis(self.choices.bodies)

    def why_not(self, node: Node) -> str | None:
        """Return why a node cannot be in a cluster, or None if it can."""
        found = self._reasons.find(node)
        if found is None:
            found = (self._why_not(node),)
            traits = node.op_def.traits
            if not (traits.asserts or traits.is_control_flow or node.op_def.calls) and (
                self.choices.depends_on_attrs_only(node)
            ):
                self._reasons.store(node, found)
        return found[0]

    def _why_not(self, node: Node) -> str | None:
        traits = node.op_def.traits
        if is_argument_or_result(node):
            return "it is an argument or result of the graph"
        if traits.is_control_flow:
            return "it controls execution with dead values"
        if traits.gives_dead:
            return "it may return dead values"
        choice = self._choice(node)
        reason = _bad_type(node, _handles_taken(node, choice))
        if reason is not None:
            return reason
        if isinstance(choice, str):
            return choice
        if choice.is_call:
            return self.why_not_functions(node)
        if choice.kernel is not None and choice.kernel.definition.distinct_rows:
            return NOT_DISTINCT
        return None

    def _choice(self, node: Node) -> LoweringChoice | str:
        if is_source(node):
            return self.choices.why_role_may_not_hold(node) or LoweringChoice()
        return self.choices.of(node)

    def size(self, node: Node) -> int:
        """Return the number of operations of an eligible node, those of its functions included."""
        functions = followed_functions(node)
        return 1 + sum(self._sizes.get(f.name, 0) for f in functions) if functions else 1

    def why_not_functions(self, node: Node) -> str | None:
        """Return why a function that a node calls cannot be in a cluster, or None if all can."""
        reasons = (self._why_not_function(f.name, node) for f in followed_functions(node))
        return next((reason for reason in reasons if reason is not None), None)

    def _why_not_function(self, name: str, node: Node) -> str | None:
        if name not in self._functions:
            self._functions[name] = f"function {name} calls itself"
            self._functions[name] = self._why_not_body(name, node)
        return self._functions[name]

    def _why_not_body(self, name: str, node: Node) -> str | None:
        try:
            body = self.choices.bodies(FuncAttr(name), node.graph.library)
        except OpError as error:
            return f"function {name}: {error.message}"
        num_calls = 1
        size = 0
        # A node that computes explains more than one that passes its value on.
        for inner in sorted(body.graph.nodes, key=lambda node: bool(node.op_def.traits.forwards)):
            if is_argument_or_result(inner):
                continue
            reason = (
                self.choices.why_elsewhere(inner) or self._refusal(inner) or self.why_not(inner)
            )
            if reason is not None:
                return f"{inner.name} ({inner.op}) in function {name}: {reason}"
            num_calls += sum(self._num_calls.get(f.name, 1) for f in followed_functions(inner))
            size += self.size(inner)
        self._num_calls[name] = num_calls
        self._sizes[name] = size
        if num_calls > _MAX_CALLS:
            return f"function {name} expands to {num_calls:,} calls, more than {_MAX_CALLS:,}"
        return None


def _handles_taken(node: Node, choice: LoweringChoice | str) -> frozenset[str]:
    """Return the non-array types that a node may take and return."""
    if is_source(node) or node.op_def.traits.forwards:
        return HANDLE_TYPES
    if isinstance(choice, str):
        return frozenset()
    if choice.takes_handles:
        return HANDLE_TYPES
    return _VARIANTS if choice.takes_pytrees else frozenset()


def _types(node: Node) -> list[DType]:
    """Return the input and output types of a node without the data of an assert."""
    if not node.op_def.traits.asserts:
        return [*node.input_types, *node.output_types]
    read = [node.input_types[e.dst_input] for e in node.in_edges if not _is_constant(e.src)]
    return [*read, *node.output_types]


def _is_constant(node: Node) -> bool:
    source = node.graph.source
    is_constant = node.op_def.traits.source is Source.CONSTANT
    return is_constant and all(edge.src is source for edge in node.control_in_edges)


def _bad_type(node: Node, taken: frozenset[str]) -> str | None:
    is_constant = node.op_def.traits.source is Source.CONSTANT
    for dtype in _types(node):
        name = dtype.base_dtype.name
        if name == "string" and is_constant:
            continue  # whether it is allowed depends on its consumers
        if name in _UNTRACED_TYPES or dtype.is_quantized:
            return f"it has tensors of {name}"
        if name in HANDLE_TYPES and name not in taken:
            return f"it has tensors of {name}"
    return None
