"""Propagators: determine which nodes become ready when a node is done (clause E7).

`SimplePropagator` serves graphs without control flow: a node is ready when all its in-edges have
arrived. `Propagator` adds frames, iterations and dead tokens. `ExecutorState` calls both alike:
`start`, then `output_done` or `node_done` for each node that ran, until nothing is ready.

Semantics: `tensorflow/core/common_runtime/propagator_state.cc`, `simple_propagator_state.h`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.spi import DEAD
from graphmill.spi.kernels import ROOT_FRAME_ITERATION
from graphmill_plugins.default_executor.graph_view import ENTER, EXIT, PLAIN
from graphmill_plugins.default_executor.state import FrameState, IterationState

if TYPE_CHECKING:
    from graphmill_plugins.default_executor.graph_view import FrameView, GraphView, NodeItem

    Ready = list[tuple[NodeItem, Any, bool]]
    """Nodes that are ready: the node, the iteration to run it in, and whether it is dead."""


class SimplePropagator:
    """The state of one run of a graph without control flow, which is its only iteration.

    Attributes:
        inputs: the flat array of input entries, None where nothing has arrived.
        pending: for each node how many edges it still waits for.
    """

    __slots__ = ("inputs", "pending", "view")

    def __init__(self, view: GraphView) -> None:
        self.view = view
        self.inputs: list[Any] = view.root_frame.initial_inputs.copy()
        self.pending = view.root_frame.initial_pending.copy()

    @property
    def name(self) -> str:
        """The frame and iteration for messages: empty."""
        return ""

    @property
    def frame_iteration(self) -> str:
        """The frame and iteration for rendezvous keys."""
        return ROOT_FRAME_ITERATION

    @property
    def is_done(self) -> bool:
        """Whether every node has become ready."""
        return not any(self.pending)

    def start(self, ready: Ready) -> Any:
        """Add the nodes without inputs to `ready`; return the iteration of arguments."""
        ready.extend((item, self, False) for item in self.view.roots)
        return self

    def output_done(self, item: NodeItem, iteration: Any, output: Any, ready: Ready) -> None:
        """Propagate the only output of a finished node; add nodes that become ready to `ready`."""
        del iteration
        inputs, pending = self.inputs, self.pending
        for entry, consumer in item.first_edges:
            inputs[entry] = output
            left = pending[consumer.id] = pending[consumer.id] - 1
            if not left:
                ready.append((consumer, self, False))
        if item.control_edges:
            self._control_done(item, ready)

    def node_done(
        self, item: NodeItem, iteration: Any, is_dead: bool, outputs: Any, ready: Ready
    ) -> None:
        """Propagate all outputs of a finished node, which is never dead here."""
        del iteration, is_dead
        inputs, pending = self.inputs, self.pending
        for edges, output in zip(item.output_edges, outputs, strict=True):
            for entry, consumer in edges:
                inputs[entry] = output
                left = pending[consumer.id] = pending[consumer.id] - 1
                if not left:
                    ready.append((consumer, self, False))
        if item.control_edges:
            self._control_done(item, ready)

    def validate(self) -> None:
        """Check the invariants; tests call it after each event.

        Raises:
            AssertionError: an invariant is broken; the message says which and where.
        """
        _validate_entries(self.view.root_frame, self.pending, self.inputs)

    def describe_pending(self) -> str:
        """Describe what each pending node waits for."""
        return _waiting(self.view.root_frame, self.pending, self.inputs)

    def iteration_names(self) -> dict[str, str]:
        """Return the names that messages use for frames and iterations: none."""
        return {}

    def _control_done(self, item: NodeItem, ready: Ready) -> None:
        pending = self.pending
        for consumer in item.control_edges:
            left = pending[consumer.id] = pending[consumer.id] - 1
            if not left:
                ready.append((consumer, self, False))


class Propagator:
    """The state of one run of a graph with control flow.

    Attributes:
        frames: the frames that are not done, by (iteration entered from, path of the frame).
        root: the root frame; None when everything is done.
    """

    __slots__ = ("_first", "frames", "root", "view")

    def __init__(self, view: GraphView) -> None:
        self.view = view
        self.frames: dict[tuple[IterationState, tuple[str, ...]], FrameState] = {}
        self._first = FrameState(view.root_frame, None).iterations[0]
        self.root: FrameState | None = self._first.frame

    @property
    def is_done(self) -> bool:
        """Whether every frame is done, the root frame included."""
        return self.root is None

    def start(self, ready: Ready) -> IterationState:
        """Add the nodes without inputs to `ready`; return the iteration of arguments."""
        view = self.view
        iteration = self._first
        iteration.outstanding_ops = len(view.roots) + len(view.args)
        ready.extend((item, iteration, False) for item in view.roots)
        if not iteration.outstanding_ops:
            self._iteration_idle(iteration, ready)
        return iteration

    def output_done(
        self, item: NodeItem, iteration: IterationState, output: Any, ready: Ready
    ) -> None:
        """Propagate the only output of a finished node, which is alive."""
        if not item.is_simple:
            self.node_done(item, iteration, False, (output,), ready)
            return
        pending, dead, inputs = iteration.pending, iteration.dead, iteration.inputs
        left_running = iteration.outstanding_ops - 1
        for entry, consumer in item.first_edges:
            inputs[entry] = output
            index = consumer.id_in_frame
            left = pending[index] = pending[index] - 1
            if not left:
                ready.append((consumer, iteration, dead[index] > 0))
                left_running += 1
        for consumer in item.control_edges:
            index = consumer.id_in_frame
            left = pending[index] = pending[index] - 1
            if not left:
                ready.append((consumer, iteration, dead[index] > 0))
                left_running += 1
        iteration.outstanding_ops = left_running
        if not left_running:
            self._iteration_idle(iteration, ready)

    def node_done(
        self, item: NodeItem, iteration: IterationState, is_dead: bool, outputs: Any, ready: Ready
    ) -> None:
        """Propagate the outputs of a finished node; add nodes that become ready to `ready`.

        Args:
            item: the node.
            iteration: where it ran.
            is_dead: whether it was dead, so that it did not run.
            outputs: its outputs, `DEAD` where one is dead.
            ready: the queue.
        """
        kind = item.kind
        if kind == PLAIN:
            _activate(item, is_dead, iteration, outputs, ready)
        elif kind == ENTER:
            self._enter(item, is_dead, iteration, outputs, ready)
        elif kind == EXIT:
            _exit(item, is_dead, iteration, outputs, ready)
        elif not is_dead:  # NextIteration does not propagate deadness
            _next_iteration(item, iteration, outputs, ready)
        iteration.outstanding_ops -= 1
        if not iteration.outstanding_ops:
            self._iteration_idle(iteration, ready)

    def validate(self) -> None:
        """Check the invariants; tests call it after each event.

        Raises:
            AssertionError: an invariant is broken; the message says which and where.
        """
        if self.root is None and self.frames:
            raise AssertionError(f"the root frame is done, but not {list(self.frames.values())}")
        for frame in [*self.frames.values(), *([self.root] if self.root is not None else [])]:
            _validate_frame(frame)

    def describe_pending(self) -> str:
        """Describe what each pending node of each unfinished iteration waits for."""
        frames = [*([self.root] if self.root is not None else []), *self.frames.values()]
        return "\n".join(
            f"{iteration.name or 'outside of loops'}:\n"
            + _waiting(frame.view, iteration.pending, iteration.inputs)
            for frame in frames
            for iteration in frame.iterations.values()
        )

    def iteration_names(self) -> dict[str, str]:
        """Return the names that messages use for frames and iterations, by rendezvous key."""
        return {
            iteration.frame_iteration: iteration.name
            for frame in self.frames.values()
            for iteration in frame.iterations.values()
        }

    def _enter(
        self, item: NodeItem, is_dead: bool, iteration: IterationState, outputs: Any, ready: Ready
    ) -> None:
        frame = self._child_frame(item, iteration)
        if item.is_constant_enter:
            frame.invariants.append((item, outputs[0]))
            for started in list(frame.iterations.values()):
                _activate(item, is_dead, started, outputs, ready)
        else:
            _activate(item, is_dead, frame.iterations[0], outputs, ready)
        frame.num_pending_inputs -= 1
        first = frame.iterations.get(0)
        if first is not None and not first.outstanding_ops:
            # The last input arrived and made no node ready, so the frame may be done.
            self._iteration_idle(first, ready)

    def _child_frame(self, item: NodeItem, iteration: IterationState) -> FrameState:
        view: FrameView = item.child_frame  # type: ignore[assignment]
        key = (iteration, view.path)
        frame = self.frames.get(key)
        if frame is None:
            frame = self.frames[key] = FrameState(view, iteration)
            iteration.outstanding_frames += 1
        return frame

    def _iteration_idle(self, iteration: IterationState, ready: Ready) -> None:
        """Delete a finished iteration, finished later ones, and the frames that end with them."""
        current: IterationState | None = iteration
        while current is not None:
            frame = current.frame
            if not _delete_done_iterations(frame, current.number, ready):
                return
            current = self._delete_frame(frame, ready)

    def _delete_frame(self, frame: FrameState, ready: Ready) -> IterationState | None:
        """Delete a finished frame; return the iteration around it, which may be finished now."""
        parent = frame.parent
        if parent is None:
            self.root = None
            return None
        for item in frame.dead_exits:
            _activate(item, True, parent, item.dead_outputs, ready)
        del self.frames[parent, frame.view.path]
        parent.outstanding_frames -= 1
        return parent


def _exit(
    item: NodeItem, is_dead: bool, iteration: IterationState, outputs: Any, ready: Ready
) -> None:
    frame = iteration.frame
    if not is_dead:
        parent: IterationState = frame.parent  # type: ignore[assignment]
        _activate(item, False, parent, outputs, ready)
    elif iteration.number == frame.iteration_count:
        # A later iteration may still exit alive; if none does, the result is dead.
        frame.dead_exits.append(item)


def _next_iteration(item: NodeItem, iteration: IterationState, outputs: Any, ready: Ready) -> None:
    frame = iteration.frame
    if iteration.number < frame.iteration_count:
        following = frame.iterations[iteration.number + 1]
    elif len(frame.iterations) >= frame.view.parallel_iterations:
        frame.deferred.append((item, outputs[0]))  # back-pressure: wait for an older iteration
        return
    else:
        following = _start_iteration(frame, ready)
    _activate(item, False, following, outputs, ready)


def _start_iteration(frame: FrameState, ready: Ready) -> IterationState:
    frame.iteration_count += 1
    started = IterationState(frame, frame.iteration_count)
    frame.iterations[frame.iteration_count] = started
    frame.dead_exits.clear()
    deferred, frame.deferred = frame.deferred, []
    for item, value in (*deferred, *frame.invariants):
        _activate(item, value is DEAD, started, (value,), ready)
    return started


def _delete_done_iterations(frame: FrameState, number: int, ready: Ready) -> bool:
    """Delete finished iterations from `number` on; return whether the frame is finished."""
    iterations = frame.iterations
    while number in iterations and _is_iteration_done(frame, iterations[number]):
        del iterations[number]
        if frame.deferred:
            _start_iteration(frame, ready)
        number += 1
    return not frame.num_pending_inputs and not iterations


def _is_iteration_done(frame: FrameState, iteration: IterationState) -> bool:
    if iteration.outstanding_ops or iteration.outstanding_frames:
        return False
    if not iteration.number:
        return not frame.num_pending_inputs
    # Values for this iteration may arrive until the previous one is done.
    return iteration.number - 1 not in frame.iterations


def _activate(
    item: NodeItem, is_dead: bool, target: IterationState, outputs: Any, ready: Ready
) -> None:
    """Propagate the outputs of a node to its consumers in the iteration `target`."""
    pending, dead, inputs = target.pending, target.dead, target.inputs
    started = 0
    for edges, output in zip(item.output_edges, outputs, strict=True):
        is_edge_dead = is_dead or output is DEAD
        for entry, consumer in edges:
            index = consumer.id_in_frame
            if consumer.is_merge:
                if is_edge_dead:
                    is_ready, consumer_is_dead = _dead_input_of_merge(item, consumer, target)
                else:
                    waited = pending[index]
                    pending[index] = waited & ~1
                    if waited & 1:  # the first live input wins, later ones are dropped
                        inputs[entry] = output
                    is_ready, consumer_is_dead = waited == 1, False
            else:
                if is_edge_dead:
                    dead[index] += 1
                else:
                    inputs[entry] = output
                left = pending[index] = pending[index] - 1
                is_ready, consumer_is_dead = not left, dead[index] > 0
            if is_ready:
                started += 1
                ready.append((consumer, target, consumer_is_dead))
    for consumer in item.control_edges:
        if _control_edge_done(consumer, is_dead, target):
            started += 1
            ready.append((consumer, target, _is_dead_by_control(consumer, target)))
    target.outstanding_ops += started


def _dead_input_of_merge(
    item: NodeItem, consumer: NodeItem, target: IterationState
) -> tuple[bool, bool]:
    """Count a dead input of a `Merge`; return whether the node is ready, and whether it is dead.

    A single dead `Enter` makes the `Merge` dead: its other input would come from inside of the
    loop, which then never runs.
    """
    index = consumer.id_in_frame
    target.dead[index] += 1
    is_dead = target.dead[index] == consumer.num_inputs or item.kind == ENTER
    return is_dead and target.pending[index] == 1, is_dead


def _control_edge_done(consumer: NodeItem, is_dead: bool, target: IterationState) -> bool:
    """Propagate a control edge; return whether the consumer becomes ready."""
    index = consumer.id_in_frame
    if consumer.is_merge:
        left = target.pending[index] = target.pending[index] - 2
        return not left or (left == 1 and target.dead[index] == consumer.num_inputs)
    if is_dead:
        target.dead[index] += 1
    left = target.pending[index] = target.pending[index] - 1
    return not left


def _is_dead_by_control(consumer: NodeItem, target: IterationState) -> bool:
    dead = target.dead[consumer.id_in_frame]
    if consumer.is_merge:
        return dead == consumer.num_inputs
    return dead > 0 and not consumer.is_control_trigger


def _validate_frame(frame: FrameState) -> None:
    if frame.num_pending_inputs < 0:
        raise AssertionError(f"{frame}: more Enters arrived than the frame has")
    if len(frame.iterations) > frame.view.parallel_iterations:
        raise AssertionError(
            f"{frame}: {len(frame.iterations)} iterations are active, but at most "
            f"{frame.view.parallel_iterations} may be"
        )
    for number, iteration in frame.iterations.items():
        if iteration.outstanding_ops < 0 or iteration.outstanding_frames < 0:
            raise AssertionError(f"{iteration}: more nodes or frames ended than started")
        if not 0 <= number <= frame.iteration_count:
            raise AssertionError(
                f"{iteration}: its index exceeds the latest one, {frame.iteration_count}"
            )
        _validate_entries(frame.view, iteration.pending, iteration.inputs)


def _validate_entries(view: FrameView, pending: list[int], inputs: list[Any]) -> None:
    for item in view.items:
        left = pending[item.id_in_frame]
        if not 0 <= left <= view.initial_pending[item.id_in_frame]:
            raise AssertionError(f"{item}: waits for {left} edges of {item.pending}")
        arrived = sum(entry is not None for entry in inputs[item.input_start : item.input_stop])
        if not item.is_merge and arrived > item.pending - left:
            raise AssertionError(
                f"{item}: {arrived} inputs arrived over {item.pending - left} edges"
            )


def _waiting(view: FrameView, pending: list[int], inputs: list[Any]) -> str:
    lines = []
    for item in view.items:
        if not pending[item.id_in_frame]:
            continue
        missing = [
            edge.tensor_name
            for edge in item.node.in_edges
            if inputs[item.input_start + edge.dst_input] is None
        ]
        lines.append(f"  {item.node.name} ({item.node.op}) waits for {', '.join(missing) or '?'}")
    return "\n".join(lines)
