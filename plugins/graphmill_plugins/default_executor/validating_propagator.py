"""Propagators that check their invariants after each event (`GRAPHMILL_VALIDATE=1`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill_plugins.default_executor.propagator import Propagator, SimplePropagator

if TYPE_CHECKING:
    from graphmill_plugins.default_executor.graph_view import NodeItem
    from graphmill_plugins.default_executor.propagator import Ready


class _Validating:
    """Mixin that calls `validate` after each method that changes the state."""

    __slots__ = ()

    def start(self, ready: Ready) -> Any:
        """See `Propagator.start`."""
        iteration = super().start(ready)  # type: ignore[misc]
        self.validate()  # type: ignore[attr-defined]
        return iteration

    def output_done(self, item: NodeItem, iteration: Any, output: Any, ready: Ready) -> None:
        """See `Propagator.output_done`."""
        super().output_done(item, iteration, output, ready)  # type: ignore[misc]
        self.validate()  # type: ignore[attr-defined]

    def node_done(
        self, item: NodeItem, iteration: Any, is_dead: bool, outputs: Any, ready: Ready
    ) -> None:
        """See `Propagator.node_done`."""
        super().node_done(item, iteration, is_dead, outputs, ready)  # type: ignore[misc]
        self.validate()  # type: ignore[attr-defined]


class ValidatingSimplePropagator(_Validating, SimplePropagator):
    """Checks the run of a graph without control flow; a broken invariant is an AssertionError."""

    __slots__ = ()


class ValidatingPropagator(_Validating, Propagator):
    """Checks the run of a graph with control flow; a broken invariant is an AssertionError."""

    __slots__ = ()
