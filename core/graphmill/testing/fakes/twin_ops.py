"""A plugin that registers ops a second time under other names, with the same traits and kernels.

    names = ("Switch", "Merge")
    host = graphmill.Host(plugins=[TwinOps(names, default_host())])
    with_twins(graph, names, host)

Only the traits of a twin show that it is control flow, a variable or a call. So a graph whose nodes
are replaced by twins reveals code that recognizes these ops by name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from graphmill.graph.builder import Graph
from graphmill.plugin.markers import hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.plugin.host import Host

PREFIX: Final = "Twin>"

CONTROL_FLOW: Final = (
    *("Switch", "RefSwitch", "_SwitchN", "Merge", "RefMerge", "Enter", "RefEnter", "Exit"),
    *("RefExit", "NextIteration", "RefNextIteration", "LoopCond", "ControlTrigger"),
)


class TwinOps:
    """A plugin with twins of some ops of a host.

    Attributes:
        names: the ops that have twins.

    Args:
        names: ops of `original`.
        original: the host that has their definitions and kernels.
    """

    def __init__(self, names: Iterable[str], original: Host) -> None:
        self.names = tuple(names)
        self._original = original

    @hookimpl
    def graphmill_register_ops(self, ops: Any) -> None:
        """Register the definition of each op under the name of its twin."""
        for name in self.names:
            ops.add(replace(self._original.ops.get(name), name=twin_name(name), family=""))

    @hookimpl
    def graphmill_register_kernels(self, kernels: Any) -> None:
        """Register the kernels of the ops for their twins."""
        for name in self.names:
            for entry in self._original.kernels.registrations(self._original.ops.get(name)):
                if name in entry.definition.ops:
                    kernels.add(replace(entry.definition, ops=(twin_name(name),)))


def twin_name(name: str) -> str:
    """Return the name of the twin of an op."""
    return PREFIX + name.lstrip("_")


def with_twins(graph: Graph, names: Iterable[str], host: Host) -> Graph:
    """Return a copy of a graph with some ops replaced by twins, also in functions.

    Args:
        graph: the graph; it is not changed.
        names: the ops whose nodes become twins.
        host: the host that has the ops and their twins.
    """
    replaced = set(names)
    message = graph.as_graph_def()
    for body in (message.node, *(function.node_def for function in message.library.function)):
        for node in body:
            if node.op in replaced:
                node.op = twin_name(node.op)
    return Graph.from_graph_def(message, host.ops)
