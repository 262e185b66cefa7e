"""The propagator: which nodes become ready when a node is done (row E7). It knows no threads.

A graph without control flow needs only counts: a node is ready when as many edges have arrived as
it has. Semantics: `tensorflow/core/common_runtime/simple_propagator_state.h`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphmill_plugins.default_executor.graph_view import GraphView, NodeItem


class SimplePropagator:
    """The state of one run of a graph without control flow.

    Attributes:
        inputs: the flat array of input entries, None where nothing has arrived.
        pending: for each item how many edges it still waits for.
    """

    __slots__ = ("inputs", "pending", "view")

    def __init__(self, view: GraphView) -> None:
        self.view = view
        self.inputs: list[Any] = [None] * view.total_inputs
        self.pending = view.initial_pending.copy()

    def start(self, ready: list[NodeItem]) -> None:
        """Add the nodes that wait for nothing to `ready`."""
        ready.extend(self.view.roots)

    def take_inputs(self, item: NodeItem) -> list[Any]:
        """Return the inputs of a ready node and forget them, so that memory is free at last use."""
        start, stop = item.input_start, item.input_stop
        taken = self.inputs[start:stop]
        self.inputs[start:stop] = item.cleared
        return taken

    def output_done(self, item: NodeItem, output: Any, ready: list[NodeItem]) -> None:
        """Hand on the sole output of a node that is done; add what becomes ready to `ready`."""
        inputs, pending = self.inputs, self.pending
        for entry, consumer in item.first_edges:
            inputs[entry] = output
            left = pending[consumer.id] = pending[consumer.id] - 1
            if not left:
                ready.append(consumer)
        if item.control_edges:
            self._control_done(item, ready)

    def outputs_done(self, item: NodeItem, outputs: Any, ready: list[NodeItem]) -> None:
        """Hand on any number of outputs of a node that is done."""
        inputs, pending = self.inputs, self.pending
        for edges, output in zip(item.output_edges, outputs, strict=True):
            for entry, consumer in edges:
                inputs[entry] = output
                left = pending[consumer.id] = pending[consumer.id] - 1
                if not left:
                    ready.append(consumer)
        if item.control_edges:
            self._control_done(item, ready)

    def validate(self) -> None:
        """Check the invariants; tests call it after each event.

        Raises:
            AssertionError: one is broken; says which and where.
        """
        for item in self.view.items:
            left = self.pending[item.id]
            if not 0 <= left <= item.pending:
                raise AssertionError(f"{item}: waits for {left} of {item.pending} edges")
            arrived = sum(
                entry is not None for entry in self.inputs[item.input_start : item.input_stop]
            )
            if arrived > item.pending - left:
                raise AssertionError(
                    f"{item}: {arrived} inputs came over {item.pending - left} edges"
                )

    def waiting(self) -> list[NodeItem]:
        """Return the nodes that have not become ready."""
        return [item for item in self.view.items if self.pending[item.id] and not item.is_arg]

    def _control_done(self, item: NodeItem, ready: list[NodeItem]) -> None:
        pending = self.pending
        for consumer in item.control_edges:
            left = pending[consumer.id] = pending[consumer.id] - 1
            if not left:
                ready.append(consumer)
