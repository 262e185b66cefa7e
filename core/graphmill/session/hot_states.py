"""The states of the hot graph of a signature, and the table of transitions.

The first steps of a signature (feeds, fetches, targets) run on the graph that was built first. When
it has run often, its graph is built again with the passes of phase `HOT`, which compiler plugins
register; then the signature is hot. Compilers have states of their own for their parts of the
graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from graphmill.runtime.state_machine import Label, StateMachine, TransitionHistory

if TYPE_CHECKING:
    from graphmill.lowering.partitioning.build_executors import PerPartition


class HotState(Label):
    """The state of a signature on its way to a hot graph."""

    COLD = "cold"
    """Not decided yet; watched steps and partial runs stay in this state."""
    INTERPRETED = "interpreted"
    """Its graph is never rebuilt: compilation is off, or no pass of phase HOT is available."""
    COUNTING = "counting"
    """Its graph is rebuilt once it has run often enough."""
    QUEUED = "queued"
    """It waits for the background thread."""
    BUILDING = "building"
    """Its graph is pruned, placed and lowered with the passes of phase HOT."""
    HOT = "hot"
    """Its steps run on the hot graph."""
    DROPPED = "dropped"
    """The queue of the background thread was full, or no thread could be started."""
    REFUSED = "refused"
    """A pass or a kernel refused the graph with a reason."""
    FAILED = "failed"
    """A plugin raised an unexpected exception while the graph was built."""


class HotEvent(Label):
    """An event of the graph of a signature."""

    NOT_ELIGIBLE = "not eligible"
    ELIGIBLE = "eligible"
    DUE_IMMEDIATELY = "due immediately"
    RAN_OFTEN = "ran often"
    QUEUE_FULL = "queue full"
    BUILD_STARTED = "build started"
    REQUESTED = "requested"
    BUILT = "built"
    GRAPH_REFUSED = "graph refused"
    PLUGIN_RAISED = "plugin raised"
    FORKED = "forked"


class HotAction(Label):
    """An action when a state is entered."""

    KEEP = "nothing changes for steps"
    SUBMIT = "hand the graph to the background thread"
    BUILD = "build it now, in the requesting thread"
    SWITCH = "later steps run on the hot graph"


Table: TypeAlias = "dict[tuple[HotState, HotEvent], tuple[HotState, HotAction]]"

_S, _E, _A = HotState, HotEvent, HotAction

HOT_TRANSITIONS: Final[Table] = {
    (_S.COLD, _E.NOT_ELIGIBLE): (_S.INTERPRETED, _A.KEEP),
    (_S.COLD, _E.ELIGIBLE): (_S.COUNTING, _A.KEEP),
    (_S.COLD, _E.DUE_IMMEDIATELY): (_S.BUILDING, _A.BUILD),
    (_S.COUNTING, _E.RAN_OFTEN): (_S.QUEUED, _A.SUBMIT),
    (_S.QUEUED, _E.QUEUE_FULL): (_S.DROPPED, _A.KEEP),
    (_S.QUEUED, _E.BUILD_STARTED): (_S.BUILDING, _A.KEEP),
    (_S.COUNTING, _E.REQUESTED): (_S.BUILDING, _A.BUILD),
    (_S.QUEUED, _E.REQUESTED): (_S.BUILDING, _A.BUILD),
    (_S.BUILDING, _E.BUILT): (_S.HOT, _A.SWITCH),
    (_S.BUILDING, _E.GRAPH_REFUSED): (_S.REFUSED, _A.KEEP),
    (_S.BUILDING, _E.PLUGIN_RAISED): (_S.FAILED, _A.KEEP),
    # The child of a fork has no background thread: the next step submits the graph again.
    (_S.QUEUED, _E.FORKED): (_S.COUNTING, _A.KEEP),
    (_S.BUILDING, _E.FORKED): (_S.COUNTING, _A.KEEP),
}

EXPLAINED: Final = (_S.INTERPRETED, _S.DROPPED, _S.REFUSED, _S.FAILED)
"""States in which steps stay on the first graph, with a reason."""

_HISTORY_LENGTH: Final = 8  # longer than the longest path through the table


class HotGraph(StateMachine[HotState, HotEvent, HotAction]):
    """The hot graph of one signature, or its state on the way there.

    Threads: the lock of the session's `HotSteps` guards the state.

    Attributes:
        history: its transitions.
        items: its partitions if it is hot, else None.
        reason: why it is in its state; may be empty.
        since: the number of steps before it took over; a statistic.
        seconds: the total duration of the steps that were timed.
    """

    __slots__ = ("history", "items", "reason", "seconds", "since")

    def __init__(self) -> None:
        self.history = TransitionHistory(_HISTORY_LENGTH)
        super().__init__(HOT_TRANSITIONS, HotState.COLD, self.history, "the graph")
        self.items: tuple[PerPartition, ...] | None = None
        self.reason = ""
        self.since = 0
        self.seconds = 0.0
