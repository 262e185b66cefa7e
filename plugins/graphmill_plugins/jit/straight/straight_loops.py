"""Choose loops that cannot be compiled for straight-line code, and replace them.

The executor's overhead is more than a microsecond per node and iteration, that of generated code a
tenth. Iterations run one after the other, as with `parallel_iterations=1`. This differs from the
DEFAULT executor only if a node waits for another node of the same or a later iteration, so loops
with more than one node that may block are excluded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import OpError
from graphmill.spi import FuncAttr
from graphmill.spi.graphs import is_argument_or_result, is_transfer
from graphmill.spi.passes import effects_of
from graphmill_plugins.jit.analysis.refusal import refuses_nothing
from graphmill_plugins.jit.analysis.waiting import WaitingNodes
from graphmill_plugins.jit.ir.invariant_nodes import does_nothing
from graphmill_plugins.jit.ir.lowering_choices import LoweringChoices, followed_functions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from graphmill.spi import Graph, Host, Node
    from graphmill_plugins.jit.analysis.refusal import Refusal
    from graphmill_plugins.jit.functionalize.region import Region


class StraightLoops:
    """Decides which loops of one graph can become straight-line code.

    Args:
        host: provides the kernels and ops.
        refusal: returns why the session's policy refuses a node, or None.
        choices: returns the kernels of nodes; by default those on the host's processor.
    """

    def __init__(
        self, host: Host, refusal: Refusal = refuses_nothing, choices: LoweringChoices | None = None
    ) -> None:
        self._host = host
        self._choices = choices or LoweringChoices(host)
        self._waits = WaitingNodes(self._choices)
        self._refusal = refusal
        self._functions: dict[str, tuple[str, int]] = {}

    def why_not(self, nodes: Iterable[Node]) -> str:
        """Return why the functions of a loop cannot be straight-line code; empty if they can."""
        reason, waits = self._check_nodes(nodes)
        if not reason and waits > 1:
            return "more than one of its nodes may wait for other nodes"
        return reason

    def why_not_region(self, region: Region) -> str:
        """Return why a v1 loop cannot be straight-line code; empty if it can."""
        inner = []
        for node in region.nodes:
            if not node.op_def.traits.is_control_flow:
                inner.append(node)
            elif reason := self._choices.why_role_may_not_hold(node):
                return f"{node.name} ({node.op}): {reason}"
        return self.why_not(inner)

    def _check_nodes(self, nodes: Iterable[Node]) -> tuple[str, int]:
        """Return why the nodes cannot be straight-line code, and the number that may block."""
        waits = 0
        for node in nodes:
            reason, more = self._check_node(node)
            if reason:
                return f"{node.name} ({node.op}): {reason}", 0
            waits += more
        return "", waits

    def _check_node(self, node: Node) -> tuple[str, int]:
        functions = [function.name for function in followed_functions(node)]
        if functions:
            return self._check_functions(functions, node)
        if is_argument_or_result(node) or does_nothing(node):
            return "", 0
        refused = self._refusal(node)
        if refused is not None:
            return refused, 0
        if node.op_def.traits.may_be_dead:
            return "it may return dead values", 0
        if is_transfer(node) or "net" in effects_of(node.op_def):
            return "it communicates with another device", 0
        choice = self._choices.kernel_choice(node)
        if choice is None:
            return "it has no kernel", 0
        definition = choice.definition
        if definition.async_ and node.op_def.calls:
            return "its kernel runs other nodes", 0
        if definition.async_ and definition.waits is None:
            # The executor runs several iterations at once, generated code one after the other.
            return "its kernel is asynchronous, so iterations may overlap", 0
        return "", int(self._waits.may_wait(node))

    def _check_functions(self, names: Iterable[str], node: Node) -> tuple[str, int]:
        waits = 0
        for name in names:
            reason, more = self._check_function(name, node)
            if reason:
                return reason, 0
            waits += more
        return "", waits

    def _check_function(self, name: str, node: Node) -> tuple[str, int]:
        if name not in self._functions:
            self._functions[name] = f"function {name} calls itself", 0
            self._functions[name] = self._check_body(name, node)
        return self._functions[name]

    def _check_body(self, name: str, node: Node) -> tuple[str, int]:
        try:
            body = self._choices.bodies(FuncAttr(name), node.graph.library)
        except OpError as error:
            return f"function {name}: {error.message}", 0
        for inner in body.graph.nodes:
            if inner.op_def.traits.is_control_flow:
                return f"function {name} contains v1 control flow", 0
            if elsewhere := self._choices.why_elsewhere(inner):
                return f"{inner.name} ({inner.op}) in function {name}: {elsewhere}", 0
        return self._check_nodes(body.graph.nodes)


def straight_regions(
    host: Host, traceable: Callable[[Region], str | None], choices: LoweringChoices | None = None
) -> Callable[[Region], str | None]:
    """Return a function that refuses regions that are neither traceable nor straight-line loops."""
    loops = StraightLoops(host, choices=choices)

    def refusal_of(region: Region) -> str | None:
        reason = traceable(region)
        if reason is None or region.kind != "while":
            return reason
        if len({node.assigned_device or node.device for node in region.nodes}) > 1:
            return reason
        why_not = loops.why_not_region(region)
        return (
            f"{reason}; straight-line code is not possible either: {why_not}" if why_not else None
        )

    return refusal_of


def straight_loops(
    graph: Graph,
    host: Host,
    inside: set[Node],
    refusal: Refusal = refuses_nothing,
    choices: LoweringChoices | None = None,
) -> list[Node]:
    """Return the functional loops that become straight-line code.

    Args:
        graph: the graph of the loops.
        host: provides the kernels and ops.
        inside: nodes inside v1 loops, which are not replaced.
        refusal: returns why the session's policy refuses a node, or None.
        choices: returns the kernels of nodes; by default those on the host's processor.
    """
    loops = StraightLoops(host, refusal, choices)
    while_nodes = [node for node in graph.nodes if node.op_def.is_while and node not in inside]
    return [node for node in while_nodes if not loops.why_not([node])]
