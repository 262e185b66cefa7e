"""Build small graphs for tests of clusters, written as in op cases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

import graphmill
from graphmill.errors import OpError
from graphmill.explain import explain_all
from graphmill.graph.formats.import_export import graph_from_graph_def
from graphmill.lowering.passes import PassOptions
from graphmill.lowering.policies.effects_policy import EffectsPolicy
from graphmill.runtime.kernels.op_kernel import OpKernelConstruction, bind
from graphmill.session.session import Session
from graphmill.testing.case_graph import GraphMaker
from graphmill.testing.case_inputs import parse_input
from graphmill.testing.case_nodes import parse_function, parse_node
from graphmill.testing.differential.compiled_graphs import jit_config
from graphmill_plugins.jit.clustering.clusters import form_clusters
from graphmill_plugins.jit.ir.invariant_nodes import is_variable
from graphmill_plugins.jit.ir.scheduled_body import ScheduledBodies
from graphmill_plugins.jit.ir.signature import Inputs
from graphmill_plugins.jit.straight.straight_line import StraightLine

if TYPE_CHECKING:
    from graphmill.explain.compilation import ClusterRecord
    from graphmill.graph.functions.function_body import FunctionBody
    from graphmill.graph.graph import Graph
    from graphmill.graph.node import Node
    from graphmill.runtime.kernels.op_kernel import OpKernel
    from graphmill_plugins.jit.ir.scheduled_body import ScheduledBody

OPS = graphmill.default_host().ops


def graph_def(*nodes: str, functions: tuple[str, ...] = (), **placeholders: str) -> Any:
    """Return a graph of placeholders (`x="float32[2]"`) and nodes (`"y = Neg(x)"`)."""
    maker = GraphMaker(OPS)
    for text in functions:
        maker.function(parse_function(text, {}))
    for name, value in placeholders.items():
        maker.placeholder(name, parse_input(value, {}, name))
    for text in nodes:
        maker.node(parse_node(text, {}))
    return maker.graph_def


def graph(*nodes: str, **placeholders: Any) -> Graph:
    """Return the same graph as the runtime's `Graph`."""
    return graph_from_graph_def(graph_def(*nodes, **placeholders), OPS)


def body(*nodes: str, **placeholders: Any) -> FunctionBody:
    """Return the body of a cluster of the nodes; unread tensors are outputs.

    Raises:
        ValueError: they are not one cluster.
    """
    made = graph(*nodes, **placeholders)
    fetch_unread(made)
    clusters = [node for node in form(made).nodes if node.op == "_Cluster"]
    if len(clusters) != 1:
        raise ValueError(f"these are {len(clusters)} clusters")
    found: FunctionBody = clusters[0].attrs["f"].body
    return found


def fetch_unread(made: Graph) -> None:
    """Add a result for each unread tensor."""
    results = OPS.get("_Retval")
    for node in list(made.nodes):
        read = {edge.src_output for edge in node.out_edges if not edge.is_control}
        for output in sorted(set(range(node.num_outputs)) - read):
            attrs = {"T": node.output_types[output].base_dtype, "index": 0}
            name = f"result_{node.name}_{output}"
            made.add_node(name, results, [(node, output)], attrs=results.with_defaults(attrs))


def form(made: Graph, min_size: int = 1, max_size: int = 0) -> Graph:
    """Form the clusters of a graph, and return it."""
    config = jit_config("tiered")
    config.graphmill.jit_min_cluster_size = min_size
    config.graphmill.jit_max_cluster_size = max_size
    form_clusters(made, PassOptions(config, [], graphmill.default_host()))  # type: ignore[arg-type]
    return made


def numpy_kernel(node: Node, scheduled: ScheduledBody | None = None) -> OpKernel:
    """Make the kernel of a node."""
    del scheduled
    found = graphmill.default_host().kernels.find(node.op_def, node.attrs, "CPU", ("numpy",))
    construction = OpKernelConstruction(node.name, node.op_def, node.attrs, None, np)
    return bind(found.definition, construction, found.owner)


def inputs_of(scheduled: ScheduledBody) -> Inputs:
    """Return the input kinds of a cluster without calls that use variables."""
    named = [node for node in scheduled.nodes if is_variable(node)]
    return Inputs(scheduled, named)


def straight_line(made: FunctionBody) -> StraightLine:
    """Return the straight-line code of a body."""
    return StraightLine(
        ScheduledBodies(made, graphmill.default_host(), EffectsPolicy()),
        numpy_kernel,
        "/device:CPU:0",
    )


class HotSession:
    """A session with clusters of any size, and its records.

    Args:
        graph: a GraphDef.
        mode: of compilation.
        after_steps: after how many steps the graph is built again.
    """

    def __init__(self, graph: Any, mode: str = "eager", after_steps: int = 1) -> None:
        config = jit_config(mode)
        config.graphmill.jit_after_steps = after_steps
        self.host = graphmill.default_host()
        self.session = Session(graph=graph, config=config, host=self.host)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.session.close()

    def run(self, fetches: Any, feeds: Any = None, targets: Any = ()) -> Any:
        """Run a step, and wait for background compilations."""
        try:
            return self.session.run(fetches, feeds, targets=list(targets))
        finally:
            self.host.background.wait_idle()

    def error(self, fetches: Any, feeds: Any = None, targets: Any = ()) -> OpError:
        """Run a step that fails, and return its error."""
        try:
            result = self.run(fetches, feeds, targets)
        except OpError as error:
            return error
        raise AssertionError(f"no error, but {result}")

    @property
    def clusters(self) -> list[ClusterRecord]:
        """The records of the clusters of all signatures."""
        steps = explain_all(self.session)
        return [c for step in steps for one in step.compilations.values() for c in one.clusters]
