"""`WaitingNodes`: find nodes that may block until another node of the step runs.

A dequeue waits for an enqueue, a take for a put. If both were in one cluster, or a cluster waited
for the first before it ran the second, the step would deadlock. A kernel declares whether it waits
(`waits` of `@kernel`; by default only asynchronous kernels do). A node that calls functions waits
if a node of their bodies does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import OpError
from graphmill.spi import FuncAttr
from graphmill_plugins.jit.ir.lowering_choices import followed_functions

if TYPE_CHECKING:
    from graphmill.spi import Graph, Node
    from graphmill_plugins.jit.ir.lowering_choices import LoweringChoices


class WaitingNodes:
    """Finds the nodes of one device that may block; caches the results for functions.

    Args:
        choices: returns the kernels of the nodes.
    """

    def __init__(self, choices: LoweringChoices) -> None:
        self._choices = choices
        self._functions: dict[str, bool] = {}

    def among(self, graph: Graph) -> set[Node]:
        """Return the nodes of a graph that may block."""
        return {node for node in graph.nodes if self.may_wait(node)}

    def may_wait(self, node: Node) -> bool:
        """Return whether a node may block until another node runs."""
        functions = followed_functions(node)
        if functions:
            return any(self._function_waits(function.name, node) for function in functions)
        choice = self._choices.kernel_choice(node)
        return choice is not None and choice.definition.may_wait

    def _function_waits(self, name: str, node: Node) -> bool:
        cached = self._functions.get(name)
        if cached is None:
            self._functions[name] = False  # ends recursion: the call itself does not wait
            cached = self._functions[name] = self._body_waits(name, node)
        return cached

    def _body_waits(self, name: str, node: Node) -> bool:
        try:
            body = self._choices.bodies(FuncAttr(name), node.graph.library)
        except OpError:
            return True  # unknown; the executor reports the error
        return any(map(self.may_wait, body.graph.nodes))
