"""`FollowedGraph`: a graph object whose new nodes are added to a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import FailedPreconditionError

if TYPE_CHECKING:
    from graphmill.graph.graph import Graph
    from graphmill.lowering.execution_state import GraphExecutionState


class FollowedGraph:
    """Tracks which nodes of a graph object a session already has.

    Threads: the session calls it under its graph lock.

    Args:
        source: the graph object.
        num_taken: the number of its node ids that the session has already.
    """

    def __init__(self, source: Graph, num_taken: int = 0) -> None:
        self._source = source
        self._size = num_taken
        self._edits = source.edit_count

    @property
    def has_grown(self) -> bool:
        """Whether nodes were added or changed."""
        return self._source.num_node_ids != self._size or self._source.edit_count != self._edits

    def take(self, state: GraphExecutionState) -> None:
        """Add new nodes to the session's graph.

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
