"""Find the tier of each node and the reason, from the compiler's records of a signature."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from graphmill.explain.compilation import COMPILED, INTERPRETED, STRAIGHT_LINE, find_compilation
from graphmill.session.hot_states import HotState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.explain.compilation import ClusterRecord, Compilation
    from graphmill.session.executors_cache import ExecutorsAndKeys
    from graphmill.session.hot_steps import HotSteps

_OBSERVED: Final = (
    "its device {} must see each call of a kernel (observes_kernels of {} is not False)"
)


class NodeTier(NamedTuple):
    """How one node runs.

    Attributes:
        tier, reason: its tier, and the reason for it.
        cluster: its cluster; "" for none.
        form: what is compiled for it; "" if nothing is.
    """

    tier: str
    reason: str
    cluster: str = ""
    form: str = ""


class Tiers:
    """The tiers of the nodes of one signature.

    Args:
        executors: its executors.
        hot_steps: the `HotSteps` of its session.

    Attributes:
        compilations: the compiler's record of each device's graph, by device name.
        reason: why no graph was built again for compilation, or why none of its nodes is in a
            cluster, if all have the same reason; else empty.
    """

    def __init__(self, executors: ExecutorsAndKeys, hot_steps: HotSteps) -> None:
        self.reason = _why_not_built(executors, hot_steps)
        self.compilations: dict[str, Compilation] = {}
        self._cluster_of: dict[str, ClusterRecord] = {}
        self._became: dict[str, tuple[str, ...]] = {}
        self._outside: dict[str, str] = {}
        for item in executors.hot_items or executors.items:  # a device may compile at once
            compilation = find_compilation(item.graph)
            if compilation is not None:
                self.compilations[item.device.name] = compilation
                self._add(compilation)
            if item.device.observes_kernels:
                reason = _OBSERVED.format(item.device.name, type(item.device).__name__)
                self._outside.update((node.name, reason) for node in item.graph.nodes)
        if not self.reason and not self.compilations and not self._outside:
            self.reason = "its graph was not given to a compiler"
        if not self.reason and not self._cluster_of:
            self.reason = _shared_reason(self._outside.values())

    def of(self, name: str) -> NodeTier:
        """Return how a node runs."""
        if self.reason and name not in self._cluster_of:
            return NodeTier(INTERPRETED, self.reason)
        node, seen = name, set()
        while True:
            seen.add(node)
            cluster = self._cluster_of.get(node)
            if cluster is not None:
                form = cluster.forms.get(name) or cluster.forms.get(node, "")
                return NodeTier(cluster.tier, _why_in(cluster), cluster.name, form)
            outside = self._outside.get(node)
            if outside is not None:
                return NodeTier(INTERPRETED, outside)
            became = self._became.get(node, ())
            if not became or became[0] in seen:
                why = "it is not in the graph that was rebuilt for compilation"
                return NodeTier(INTERPRETED, why)
            node = became[0]

    def _add(self, compilation: Compilation) -> None:
        for cluster in compilation.clusters:
            self._cluster_of.update(dict.fromkeys((cluster.name, *cluster.nodes), cluster))
        self._outside.update((note.node, note.reason) for note in compilation.outside)
        for region in compilation.regions:
            if region.is_functional:
                self._became.update(dict.fromkeys(region.nodes, region.became))
                continue
            for node in region.nodes:
                if node in self._outside:
                    self._outside[node] += (
                        f" ({region.kind} {region.name} remains: {region.reason})"
                    )


def clusters_of(executors: Iterable[ExecutorsAndKeys]) -> list[ClusterRecord]:
    """Return the clusters in the latest graphs of some signatures."""
    graphs = [item.graph for one in executors for item in one.hot_items or one.items]
    compilations = [found for graph in graphs if (found := find_compilation(graph)) is not None]
    return [cluster for compilation in compilations for cluster in compilation.clusters]


def num_interpreted_steps(executors: ExecutorsAndKeys) -> int:
    """Return how many steps of a signature ran before its graph was built for compilation."""
    return executors.step_count if executors.hot_items is None else executors.hot.since


def calls_by_tier(executors: Iterable[ExecutorsAndKeys]) -> dict[str, int]:
    """Return the number of cluster calls that each tier has served, for some signatures.

    `checks_failed` are calls of compiled programs that the interpreter repeated.
    """
    counts = [
        signature.counts for cluster in clusters_of(executors) for signature in cluster.signatures
    ]
    return {
        STRAIGHT_LINE: sum(one.num_straight for one in counts),
        COMPILED: sum(one.num_compiled for one in counts),
        "checks_failed": sum(one.num_checks_failed for one in counts),
    }


def _why_not_built(executors: ExecutorsAndKeys, hot_steps: HotSteps) -> str:
    hot = executors.hot
    if hot.state is HotState.HOT:
        return ""
    if hot.state is HotState.INTERPRETED:
        return hot.reason
    if hot.state is HotState.COLD:
        return hot_steps.why_never or "watched and partial steps are interpreted"
    if hot.state is HotState.COUNTING:
        done = f"; it has run {executors.step_count}" if executors.step_count else ""
        seconds = hot_steps.after_seconds
        more = f" and {seconds:g} seconds of steps" if seconds else ""
        return f"the graph is rebuilt for compilation after {executors.build_at} steps{more}{done}"
    if hot.state in (HotState.QUEUED, HotState.BUILDING):
        return "the graph is being rebuilt for compilation"
    return f"the graph could not be rebuilt for compilation: {hot.reason}"


def _shared_reason(reasons: Iterable[str]) -> str:
    """Return the reason that all nodes share; empty if they differ."""
    distinct = set(reasons)
    return distinct.pop() if len(distinct) == 1 else ""


def _why_in(cluster: ClusterRecord) -> str:
    """Return the reason for a cluster's tier."""
    records = cluster.signatures
    if not records:
        return "the cluster has not been called yet"
    if cluster.tier == COMPILED:
        count = sum(record.tier == COMPILED for record in records)
        seconds = sum(record.seconds for record in records if record.tier == COMPILED)
        plural = f" for {count} signatures" if count > 1 else ""
        return f"compiled{plural} in {seconds:.2f} s"
    assert cluster.tier == STRAIGHT_LINE
    return next((record.reason for record in records if record.reason), "no other tier was tried")
