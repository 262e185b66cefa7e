"""Propagators that report each node that is done, before its outputs are propagated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill_plugins.default_executor.propagator import Propagator, SimplePropagator

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill_plugins.default_executor.graph_view import GraphView, NodeItem
    from graphmill_plugins.default_executor.propagator import Ready

    Report = Callable[[NodeItem, Any, bool, Any], None]
    """Takes a node, its iteration, whether it is dead, and its outputs."""


class ReportingSimplePropagator(SimplePropagator):
    """Reports the nodes of a graph without control flow.

    Attributes:
        report: is called for each node that is done; None for a run that nobody steps through.
    """

    __slots__ = ("report",)

    def __init__(self, view: GraphView) -> None:
        super().__init__(view)
        self.report: Report | None = None

    def output_done(self, item: NodeItem, iteration: Any, output: Any, ready: Ready) -> None:
        """See `Propagator.output_done`."""
        if self.report is not None:
            self.report(item, iteration, False, (output,))
        super().output_done(item, iteration, output, ready)

    def node_done(
        self, item: NodeItem, iteration: Any, is_dead: bool, outputs: Any, ready: Ready
    ) -> None:
        """See `Propagator.node_done`."""
        if self.report is not None:
            self.report(item, iteration, is_dead, outputs)
        super().node_done(item, iteration, is_dead, outputs, ready)


class ReportingPropagator(Propagator):
    """Reports the nodes of a graph with control flow; `report` is as above."""

    __slots__ = ("report",)

    def __init__(self, view: GraphView) -> None:
        super().__init__(view)
        self.report: Report | None = None

    def output_done(self, item: NodeItem, iteration: Any, output: Any, ready: Ready) -> None:
        """See `Propagator.output_done`."""
        if self.report is not None and item.is_simple:  # else this calls `node_done`
            self.report(item, iteration, False, (output,))
        super().output_done(item, iteration, output, ready)

    def node_done(
        self, item: NodeItem, iteration: Any, is_dead: bool, outputs: Any, ready: Ready
    ) -> None:
        """See `Propagator.node_done`."""
        if self.report is not None:
            self.report(item, iteration, is_dead, outputs)
        super().node_done(item, iteration, is_dead, outputs, ready)
