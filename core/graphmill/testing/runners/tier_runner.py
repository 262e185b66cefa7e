"""Run op cases in one tier, several times per session, and record which nodes were compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from graphmill.deprecations import renamed_name, warn_renamed
from graphmill.explain import explain_all
from graphmill.graph.device_name import parse_device_name
from graphmill.graph.formats.import_export import graph_from_graph_def
from graphmill.testing.case_folder import case_folder
from graphmill.testing.case_graph import case_graph
from graphmill.testing.differential.compiled_graphs import jit_config
from graphmill.testing.runners.kernel_runner import result_of
from graphmill.testing.runners.session_runner import SessionRunner

if TYPE_CHECKING:
    from graphmill.graph.node import Node
    from graphmill.plugin.host import Host
    from graphmill.testing.case import Case
    from graphmill.testing.golden import CaseResult

RUNS: Final = 6
"""The number of runs of a case: a graph is compiled after two steps, a cluster after two calls."""
_AFTER_STEPS: Final = 2
_TIMEOUT: Final = 60.0  # seconds; includes the import of JAX


class TierResult(NamedTuple):
    """The result of a case in one tier.

    Attributes:
        results: the result of each run.
        compiled: the nodes of its graph that were compiled.
        reasons: the reasons why other nodes were not compiled.
    """

    results: list[CaseResult]
    compiled: frozenset[str]
    reasons: list[str]

    @property
    def answers(self) -> list[CaseResult]:
        """The old name of `results`."""
        warn_renamed("TierResult.answers", "results")
        return self.results


class TierRunner(SessionRunner):
    """Runs cases in sessions that interpret or compile.

    Args:
        host: the host of the sessions.
        tier: "off", "tiered", "eager", or "deterministic" for generated code alone.
        device: where the nodes of cases run; "" leaves it to placement.
    """

    def __init__(self, host: Host, tier: str, device: str = "") -> None:
        kind = parse_device_name(device).type if device else None
        config = jit_config(tier, "" if kind in (None, "CPU") else str(kind))
        config.graphmill.jit_after_steps = _AFTER_STEPS
        super().__init__(host, device, config)

    def run_often(self, case: Case) -> TierResult:
        """Run a case several times in one session, and record which nodes were compiled.

        Raises:
            NotApplicableError: the op has no kernel.
        """
        self.check_has_kernel(case)
        graph = case_graph(case, self._host.ops, self._device)
        results = []
        with case_folder(case) as folder, self._session(graph) as session:
            for _ in range(RUNS):
                results.append(result_of(lambda: self._steps(case, graph, session, folder)))
                self._host.background.wait_idle(_TIMEOUT)
            compiled, reasons = _compiled(session)
        return TierResult(results, compiled, reasons)

    def nodes(self, case: Case) -> list[Node]:
        """Return the nodes of the case's op in its graph."""
        parts = case_graph(case, self._host.ops, self._device)
        graph = graph_from_graph_def(parts.graph_def, ops=self._host.ops)
        return [node for node in graph.nodes if node.op == case.op]


def _compiled(session: Any) -> tuple[frozenset[str], list[str]]:
    """Return the nodes that a session compiled, and the reasons why others were not."""
    nodes: set[str] = set()
    reasons: list[str] = []
    for step in explain_all(session):
        for compilation in step.compilations.values():
            reasons += [f"{note.node} ({note.op}): {note.reason}" for note in compilation.outside]
            for cluster in compilation.clusters:
                if cluster.tier == "compiled":
                    nodes.update(cluster.nodes)
                reasons += [one.reason for one in cluster.signatures if one.reason]
    return frozenset(nodes), list(dict.fromkeys(reasons))


def __getattr__(name: str) -> Any:
    """Resolve old names of this module."""
    return renamed_name(__name__, name)
