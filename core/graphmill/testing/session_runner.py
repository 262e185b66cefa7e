"""Run op cases as graphs in sessions; checks too that errors name the node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill import errors
from graphmill.dtypes import as_dtype
from graphmill.testing.op_graph import NODE, CaseGraph, case_graph
from graphmill.testing.runner import answer_of, checked_answer

if TYPE_CHECKING:
    from graphmill.plugin.host import Host
    from graphmill.testing.answers import Answer
    from graphmill.testing.case import Case


class SessionRunner:
    """Run cases in a session each, on the devices of a host."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def run(self, case: Case) -> Answer:
        """Answer a case."""
        return answer_of(lambda: self._run(case))

    def _run(self, case: Case) -> Answer:
        graph = case_graph(case, self._host.ops)
        results: list[Any] = []
        with self._session(graph) as session:
            for fetches, targets in graph.steps:
                try:
                    results += session.run(list(fetches), graph.feeds, targets=list(targets))
                except errors.OpError as error:
                    if case.program is None and NODE not in str(error):
                        raise AssertionError(
                            f"The error does not name the node: {error}"
                        ) from error
                    raise
        return checked_answer(results, [as_dtype(name) for name in graph.dtypes])

    def _session(self, graph: CaseGraph) -> Any:
        from graphmill.session.session import Session

        return Session(graph=graph.graph_def, host=self._host)
