"""Name a node of the user's graph in an error that names a cluster.

A cluster that is interrupted does not know which of its nodes was running.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.explain.compilation import find_compilation
from graphmill.runtime.kernels.kernel_errors import at_node

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from graphmill.errors import OpError
    from graphmill.explain.compilation import Compilation
    from graphmill.graph.graph import Graph


def name_original_node(error: OpError, graphs: Iterable[Graph], full: Graph) -> None:
    """Make an error of a cluster name the cluster's first node of the user's graph.

    Errors of other nodes stay as they are, and so do those of clusters that have no such node,
    because they come from the bodies of functions.

    Args:
        error: the error.
        graphs: the graphs that ran, with their records of clusters.
        full: the user's graph.
    """
    for graph in graphs:
        compilation = find_compilation(graph)
        for name in () if compilation is None else _members(compilation, error.node):
            if full.has_node(name):
                error.node = error.op_type = None
                at_node(error, full.node(name), None, error.device or "")
                return


def _members(compilation: Compilation, cluster_name: str | None) -> Iterator[str]:
    """Yield the nodes of a cluster, and of the loops and branches that its nodes replace."""
    for cluster in compilation.clusters:
        if cluster.name == cluster_name:
            yield from cluster.nodes
            for region in compilation.regions:
                if not set(region.became).isdisjoint(cluster.nodes):
                    yield from region.nodes
