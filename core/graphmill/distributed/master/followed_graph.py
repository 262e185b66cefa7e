"""`FollowedGraph`: a graph object whose nodes a session takes as they are added."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import FailedPreconditionError

if TYPE_CHECKING:
    from graphmill.graph.graph import Graph
    from graphmill.lowering.execution_state import GraphExecutionState


class FollowedGraph:
    """How far a session has followed a graph object.

    Threads: the session calls it under its graph lock.

    Args:
        source: what is followed.
    """

    def __init__(self, source: Graph) -> None:
        self._source = source
        self._size = 0
        self._edits = source.edit_count

    @property
    def has_grown(self) -> bool:
        """Whether there is something to take, or to complain about."""
        return self._source.num_node_ids != self._size or self._source.edit_count != self._edits

    def take(self, state: GraphExecutionState) -> None:
        """Add what is new to the session's graph.

        Raises:
            FailedPreconditionError: a node that was there before has been changed since.
        """
        source = self._source
        if source.edit_count != self._edits:
            raise FailedPreconditionError(
                "a node of the graph was changed or removed after the session read it; "
                "sessions only see nodes that are added. Create a new session"
            )
        size = source.num_node_ids
        state.extend_from(source, source.nodes_since(self._size))
        source.mark_taken()
        self._size = size
        state.freeze()
