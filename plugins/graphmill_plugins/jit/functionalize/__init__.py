"""Replace v1 loops and conditionals by functional nodes where this is proven correct.

    records = functionalize(graph)

`Enter`, `Merge`, `Switch`, `NextIteration` and `Exit` control execution by dead values. A loop or
conditional of such nodes is replaced by one `While` or `If` node if its structure is proven to be
equivalent, innermost first. The functions of the new node are added to the graph's library. A
region that is not proven is not changed, and its record contains the reason.

Semantics: `tensorflow/compiler/tf2xla/functionalize_control_flow.cc`, for the resulting nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import InvalidArgumentError
from graphmill.spi import compilation_of
from graphmill.spi.compilers import RegionNote
from graphmill.spi.graphs import is_merge, is_switch
from graphmill.spi.passes import effects_of_node
from graphmill.spi.process import INFO, log_event
from graphmill_plugins.jit.analysis.waiting import WaitingNodes
from graphmill_plugins.jit.functionalize.conditionals import (
    Conditional,
    find_conditionals,
    prove_conditional,
    ranks,
    refresh,
)
from graphmill_plugins.jit.functionalize.if_nodes import IfMaker
from graphmill_plugins.jit.functionalize.liveness import (
    Liveness,
    forward_inputs,
    has_active_op,
)
from graphmill_plugins.jit.functionalize.loops import prove_loop
from graphmill_plugins.jit.functionalize.node_order import NodeOrder
from graphmill_plugins.jit.functionalize.region import (
    FUNCTIONALIZED,
    NotProvenError,
    Region,
    RegionRecord,
)
from graphmill_plugins.jit.functionalize.region_selection import traceable_regions
from graphmill_plugins.jit.functionalize.while_nodes import WhileMaker
from graphmill_plugins.jit.ir.lowering_choices import LoweringChoices, device_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from graphmill.spi import Graph, Host, Node
    from graphmill.spi.graphs import FramePath
    from graphmill.spi.passes import PassOptions

    RefusalOf = Callable[[Region], str | None]

__all__ = [
    "FUNCTIONALIZED",
    "Region",
    "RegionRecord",
    "functionalize",
    "functionalize_hot",
    "traceable_regions",
]


def functionalize(
    graph: Graph,
    refusal_of: RefusalOf | None = None,
    keep: Collection[Node] = (),
    *,
    host: Host | None = None,
    may_act: Callable[[Node], bool] | None = None,
    choices: LoweringChoices | None = None,
) -> list[RegionRecord]:
    """Replace proven loops and conditionals of a graph by functional nodes, innermost first.

    Args:
        graph: the graph, which is changed; its library gets the functions of the new nodes.
        refusal_of: returns why a proven region should not be replaced, or None; by default
            `traceable_regions(host)`.
        keep: nodes that must not be removed.
        host: provides the ops and kernels; by default the installed ones.
        may_act: returns whether a node has effects besides computing its outputs; by default
            according to its op.
        choices: how the nodes are compiled; by default for the host's processor.

    Returns:
        A record for each region, in the order in which they were processed.
    """
    if not any(node.op_def.traits.is_control_flow for node in graph.nodes):
        return []
    if host is None:
        from graphmill.spi.compilers import default_host

        host = default_host()
    try:
        liveness = Liveness(graph, may_act)
    except InvalidArgumentError:
        return []  # the executor rejects the graph with the reason
    choices = choices or LoweringChoices(host)
    waits = WaitingNodes(choices).among(graph)
    refusal_of = refusal_of or traceable_regions(host, choices)
    return _Functionalizer(graph, liveness, refusal_of, keep, host, waits).run()


def functionalize_hot(graph: Graph, options: PassOptions) -> None:
    """Functionalize the regions of one device's graph that benefit from it (a graph pass)."""
    from graphmill_plugins.jit.ir.function_bodies import bodies_on
    from graphmill_plugins.jit.straight.straight_loops import straight_regions

    host = options.host

    def may_act(node: Node) -> bool:
        return has_active_op(node) or bool(effects_of_node(node, options))

    device = device_of(graph, options.devices)
    choices = LoweringChoices(host, device, bodies_on(device, options))
    selection = straight_regions(host, traceable_regions(host, choices), choices)
    records = functionalize(graph, selection, host=host, may_act=may_act, choices=choices)
    compilation_of(graph).regions.extend(map(_note, records))


def _note(record: RegionRecord) -> RegionNote:
    reason = "" if record.is_functionalized else record.outcome
    if reason:
        log_event("jit", INFO, "not compiled", region=record.name, reason=reason)
    return RegionNote(
        record.kind,
        record.name,
        record.nodes,
        record.is_functionalized,
        reason,
        record.functional_nodes,
    )


class _Functionalizer:
    """Rewrites the regions of one graph."""

    def __init__(
        self,
        graph: Graph,
        liveness: Liveness,
        refusal_of: RefusalOf,
        keep: Collection[Node],
        host: Host,
        waits: set[Node],
    ) -> None:
        self.graph = graph
        self.liveness = liveness
        self.refusal_of = refusal_of
        self.keep = set(keep)
        self.ops = host.ops
        self.waits = waits
        self.order = NodeOrder(graph)
        self.records: list[RegionRecord] = []

    def run(self) -> list[RegionRecord]:
        for path in sorted(self.liveness.roots, key=len, reverse=True):
            for item in find_conditionals(self.liveness, self.liveness.roots[path]):
                self._conditional(item, path)
            if path:
                self._loop(path)
        if any(record.is_functionalized for record in self.records):
            self._drop_idle_switches()
        return self.records

    def _drop_idle_switches(self) -> None:
        """Replace control edges from a `Switch` by control edges from its inputs."""
        for node in [node for node in self.graph.nodes if is_switch(node)]:
            sources = list(forward_inputs(node))
            followers = [edge.dst for edge in node.out_edges]
            is_idle = all(edge.is_control for edge in node.out_edges) and node not in self.keep
            # A control edge from a Switch waits for the node and ignores which output is dead.
            if not is_idle or any(is_switch(edge.src) for edge in sources):
                continue
            if not followers or any(is_merge(dst) for dst in followers):
                continue
            for dst in followers:
                self.graph.add_control_edges([edge.src for edge in sources], dst)
            self.graph.withdraw([node])

    def _conditional(self, item: Conditional, path: FramePath) -> None:
        refresh(item, self.liveness)
        if not item.switches:
            return
        region = item.region()
        names = tuple(node.name for node in region.nodes)
        try:
            prove_conditional(item, self.liveness, self.keep)
            self._check_refusal(region)
            rank = ranks(item, self.graph, self.waits, self.order)
            maker = IfMaker(self.graph, self.ops, item, rank)
            maker.rewrite()
        except NotProvenError as reason:
            item.enclosing.keeps_control_flow = (
                f"conditional {item.name} inside is not functionalized: {reason}"
            )
            self._record(region, names, str(reason))
            return
        self.order.add(maker.new_nodes)
        self.liveness.forget(region.nodes)
        for node in maker.new_nodes:
            self.liveness.replace((), node, item.enclosing, path)
        self.liveness.place_control_triggers()
        new_names = tuple(node.name for node in maker.new_nodes)
        self._record(region, names, FUNCTIONALIZED, new_names, maker.functions)

    def _loop(self, path: FramePath) -> None:
        try:
            loop = prove_loop(self.liveness, path, self.keep)
        except NotProvenError as reason:
            nodes = tuple(n for n, frame in self.liveness.frames.items() if frame == path)
            region = Region("while", path[-1], nodes)
            self._record(region, tuple(node.name for node in nodes), str(reason))
            return
        region = loop.region()
        names = tuple(node.name for node in region.nodes)
        maker = WhileMaker(self.graph, self.ops, loop)
        try:
            self._check_refusal(region)
            maker.rewrite()
        except NotProvenError as reason:
            self._record(region, names, str(reason))
            return
        self.order.add([maker.node])
        self.liveness.replace(region.nodes, maker.node, loop.enclosing, path[:-1])
        self.liveness.place_control_triggers()
        self._record(region, names, FUNCTIONALIZED, (maker.node.name,), maker.functions)

    def _check_refusal(self, region: Region) -> None:
        reason = self.refusal_of(region)
        if reason is not None:
            raise NotProvenError(reason)

    def _record(
        self,
        region: Region,
        names: tuple[str, ...],
        outcome: str,
        new_nodes: tuple[str, ...] = (),
        functions: Iterable[str] = (),
    ) -> None:
        record = RegionRecord(region.kind, region.name, names, outcome, new_nodes, tuple(functions))
        self.records.append(record)
