"""Run op cases as graphs in sessions, and check that errors name the node."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphmill import errors
from graphmill.dtypes import as_dtype
from graphmill.testing.case_folder import case_folder
from graphmill.testing.case_graph import NODE, CaseGraph, case_graph
from graphmill.testing.runners.kernel_runner import NotApplicableError, checked_result, result_of

if TYPE_CHECKING:
    from graphmill.plugin.host import Host
    from graphmill.testing.case import Case
    from graphmill.testing.case_folder import CaseFolder
    from graphmill.testing.golden import CaseResult


class SessionRunner:
    """Run each case in a session of its own.

    Args:
        host: the host of the sessions.
        device: where the op is placed; "" leaves it to placement.
        config: the configuration of the sessions; None for the default.
    """

    def __init__(self, host: Host, device: str = "", config: Any = None) -> None:
        self._host = host
        self._config = config
        self._device = device

    def run(self, case: Case) -> CaseResult:
        """Run a case.

        Raises:
            NotApplicableError: the op has no kernel.
        """
        return result_of(lambda: self._run(case))

    def check_has_kernel(self, case: Case) -> None:
        """Check that the op of a case has a kernel.

        Raises:
            NotApplicableError: it has none.
        """
        # Only the backends that the device accepts: other kernels may not be importable here.
        op_def = self._host.ops.get(case.op)
        if not self._host.kernels.registrations(op_def, self._accepted()):
            raise NotApplicableError(f"{case.op} has no kernel")

    def _run(self, case: Case) -> CaseResult:
        self.check_has_kernel(case)
        graph = case_graph(case, self._host.ops, self._device)
        with case_folder(case) as folder, self._session(graph) as session:
            return self._steps(case, graph, session, folder)

    @staticmethod
    def _steps(case: Case, graph: CaseGraph, session: Any, folder: CaseFolder) -> CaseResult:
        """Run the steps of a case in a session."""
        results: list[Any] = []
        feeds = {name: folder.inside(value) for name, value in graph.feeds.items()}
        for fetches, targets in graph.steps:
            try:
                results += session.run(list(fetches), feeds, targets=list(targets))
            except errors.OpError as error:
                if case.program is None and NODE not in str(error):
                    text = f"The error does not name the node: {error}"
                    raise AssertionError(text) from error
                raise
        result = checked_result(results, [as_dtype(name) for name in graph.dtypes])
        return replace(result, outputs=tuple(folder.outside(v) for v in result.outputs))

    def _accepted(self) -> tuple[str, ...]:
        """Return the backends that the device accepts."""
        return ("numpy",)

    def _session(self, graph: CaseGraph) -> Any:
        from graphmill.session.session import Session

        return Session(graph=graph.graph_def, host=self._host, config=self._config)
