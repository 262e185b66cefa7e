"""The dynamic state of a run: frames and their iterations (clause E4).

Semantics: `tensorflow/core/common_runtime/propagator_state.h`. The contents and the invariants of
each collection are described in docs/explanation/executor-states.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.spi.executors import ROOT_FRAME_ID, child_frame_id

if TYPE_CHECKING:
    from graphmill_plugins.default_executor.graph_view import FrameView, NodeItem


class IterationState:
    """One iteration of a frame.

    Attributes:
        frame: its frame.
        number: its position in the loop, from 0.
        inputs: the flat array of input entries of the frame's nodes; None where nothing arrived.
        pending: for each node how many edges it waits for. For a `Merge` bit 0 is set until a live
            input arrives, and the control edges that it waits for count double.
        dead: for each node how many dead edges arrived.
        outstanding_ops: nodes that are ready or running.
        outstanding_frames: frames that were entered from here and are not done.
    """

    __slots__ = (
        "dead",
        "frame",
        "inputs",
        "number",
        "outstanding_frames",
        "outstanding_ops",
        "pending",
    )

    def __init__(self, frame: FrameState, number: int) -> None:
        view = frame.view
        self.frame = frame
        self.number = number
        self.inputs: list[Any] = view.initial_inputs.copy()
        self.pending = view.initial_pending.copy()
        self.dead = view.no_dead.copy()
        self.outstanding_ops = 0
        self.outstanding_frames = 0

    @property
    def name(self) -> str:
        """The frame's full name and the iteration, as `outer:3/inner:0`; empty outside of loops."""
        return f"{self.frame.name}:{self.number}" if self.frame.parent is not None else ""

    @property
    def frame_iteration(self) -> str:
        """The frame's id and the iteration, as in rendezvous keys."""
        return f"{self.frame.id}:{self.number}"

    def __repr__(self) -> str:
        return f"<Iteration {self.name or '<root>'}>"


class FrameState:
    """One execution of a frame: a loop that was entered.

    Attributes:
        view: the frame's static layout.
        parent: the iteration that it was entered from; None for the root frame.
        iterations: the unfinished iterations, by number.
        iteration_count: number of the latest iteration.
        num_pending_inputs: how many `Enter`s have not arrived yet.
        deferred: `NextIteration`s (with their values) that wait until an older iteration is done.
        invariants: constant `Enter`s (with their values), handed to every iteration.
        dead_exits: `Exit`s that were dead in the latest iteration.
    """

    __slots__ = (
        "_id",
        "dead_exits",
        "deferred",
        "invariants",
        "iteration_count",
        "iterations",
        "num_pending_inputs",
        "parent",
        "view",
    )

    def __init__(self, view: FrameView, parent: IterationState | None) -> None:
        self.view = view
        self.parent = parent
        self.num_pending_inputs = view.input_count
        self.iteration_count = 0
        self.iterations: dict[int, IterationState] = {}
        self.deferred: list[tuple[NodeItem, Any]] = []
        self.invariants: list[tuple[NodeItem, Any]] = []
        self.dead_exits: list[NodeItem] = []
        self._id = ROOT_FRAME_ID if parent is None else -1
        self.iterations[0] = IterationState(self, 0)

    @property
    def name(self) -> str:
        """The frame's full name: its path with the iteration of each frame around it."""
        if self.parent is None:
            return ""
        outer = self.parent.name
        return f"{outer}/{self.view.name}" if outer else self.view.name

    @property
    def id(self) -> int:
        """The frame's id in rendezvous keys, computed on first use."""
        if self._id < 0:
            parent: IterationState = self.parent  # type: ignore[assignment]
            self._id = child_frame_id(parent.frame.id, parent.number, self.view.name)
        return self._id

    def __repr__(self) -> str:
        return f"<Frame {self.name or '<root>'}>"
