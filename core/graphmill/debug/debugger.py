"""`Debugger`: run a step node by node, stop at conditions, look around, and go back."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from graphmill.debug.breakpoints import (
    ANY_NODE,
    Breakpoint,
    IterationBreakpoint,
    NonFiniteBreakpoint,
    ShapeBreakpoint,
)
from graphmill.debug.known_names import KnownNames
from graphmill.debug.recorder import Recorder
from graphmill.debug.recording import Recording, WaitingNode
from graphmill.debug.values import MAX_TOTAL_BYTES, MAX_VALUE_BYTES, ValueStore
from graphmill.errors import InvalidArgumentError, NotFoundError
from graphmill.runtime.stepping import NodeInstance, StepDriver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import TracebackType

    from graphmill.debug.recording import Instance
    from graphmill.debug.values import RecordedValue
    from graphmill.errors import OpError
    from graphmill.runtime.stepping import FrameProgress, SteppableRun
    from graphmill.runtime.steps.waits import WaitRecord
    from graphmill.session.session import Session

_MAX_ARGUMENTS: Final = 1000  # of a function
DEFAULT_WAIT: Final = 10.0
"""How many seconds a command waits by default while no node is ready."""


class Stop(NamedTuple):
    """Why and where a debugger stopped.

    Attributes:
        reason: "start", "step", "breakpoint", "error", "waiting", "interrupted" or "end".
        text: the reason in a sentence.
        position: the number of nodes that are done.
    """

    reason: str
    text: str
    position: int

    def __str__(self) -> str:
        return self.text


class Debugger(StepDriver):
    """Runs one step node by node.

        with graphmill.debug.Debugger(session, "loss", {x: batch}) as debugger:
            debugger.break_on_nan()
            print(debugger.resume())
            print(debugger.where())

    The step uses the session's variables, queues and random numbers, and computes what `run` would.
    Nothing is compiled in it, and its kernels run one after the other in the calling thread: the
    nodes of an iteration before those of the next one. Everything that happens is recorded, and the
    debugger can go back to look; effects are not undone, so that the step goes on from where it
    was. Leaving the `with` block ends the step.

    Args:
        session: the session, in this process.
        fetches, feed_dict, targets: as for `Session.run`.
        partial_feeds: for a partial run, the tensors that `feed` will be called for; else None.
        max_value_bytes, max_total_bytes: bounds of what is recorded; see `ValueStore`.

    Threads: one at a time uses it.

    Raises:
        UnimplementedError: the session is on a server.
        OpError: a name does not exist, or a value does not fit.

    Attributes:
        recording: what has happened so far.
        breakpoints: the breakpoints by number.
        error: the error of the step; None if there is none so far.
    """

    def __init__(
        self,
        session: Session,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        *,
        targets: Iterable[Any] = (),
        partial_feeds: Sequence[Any] | None = None,
        max_value_bytes: int = MAX_VALUE_BYTES,
        max_total_bytes: int = MAX_TOTAL_BYTES,
    ) -> None:
        self._step, self._rebuild = session.debug_step(
            self, fetches, feed_dict, targets=targets, partial_feeds=partial_feeds
        )
        self.recording = Recording(*self._step.signature)
        self._recorder = Recorder(self.recording, ValueStore(max_value_bytes, max_total_bytes))
        self.breakpoints: dict[int, Breakpoint] = {}
        self.error: OpError | None = None
        self._names = KnownNames(session.graph, self.recording)
        self._runs: list[SteppableRun] = []
        self._cursor: int | None = None  # None at the end of what has happened
        self._failed: tuple[str, OpError] | None = None  # the first node that failed
        self._hits: list[Breakpoint] = []
        self._has_moved = False
        self._num_breakpoints = 0
        self._step.start()

    @property
    def position(self) -> int:
        """The number of nodes that are done, at the place that is looked at."""
        return len(self.recording) if self._cursor is None else self._cursor

    @property
    def is_in_past(self) -> bool:
        """Whether the place that is looked at is before the latest node that is done."""
        return self._cursor is not None

    @property
    def is_done(self) -> bool:
        """Whether the step has ended."""
        return self._step.is_done

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # Breakpoints

    def break_at(self, pattern: str) -> Breakpoint:
        """Stop before a node.

        Args:
            pattern: its name; in a function, after the name of the caller and "/"; or a pattern
                such as `encoder/*`.

        Raises:
            NotFoundError: the step has no such node; the message has near names.
        """
        self._names.check_node(pattern)
        return self._add(Breakpoint(pattern))

    def break_on_nan(self, pattern: str = ANY_NODE) -> Breakpoint:
        """Stop after a node with a NaN or an infinity in an output; see `break_at`."""
        self._names.check_node(pattern)
        return self._add(NonFiniteBreakpoint(pattern))

    def break_on_shape(self, shape: Sequence[int | None], pattern: str = ANY_NODE) -> Breakpoint:
        """Stop after a node with an output of a shape.

        Args:
            shape: the shape; None for a dimension of any size.
            pattern: see `break_at`.

        Raises:
            NotFoundError: the step has no such node.
        """
        self._names.check_node(pattern)
        return self._add(ShapeBreakpoint(pattern, shape=tuple(shape)))

    def break_at_iteration(self, frame: str, iteration: int) -> Breakpoint:
        """Stop before the first node of an iteration of a loop.

        Args:
            frame: the name of the loop's frame, or of the node that loops over functions; or a
                pattern.
            iteration: the iteration, from 0.

        Raises:
            NotFoundError: the step has no such loop; the message has the loops.
        """
        self._names.check_frame(frame)
        return self._add(IterationBreakpoint(frame, iteration=iteration))

    def delete(self, number: int) -> None:
        """Remove a breakpoint.

        Raises:
            NotFoundError: there is no breakpoint of that number.
        """
        if number not in self.breakpoints:
            known = ", ".join(map(str, self.breakpoints)) or "there are none"
            raise NotFoundError(f"there is no breakpoint {number}; breakpoints: {known}")
        del self.breakpoints[number]

    # Going on and back

    def step(self, count: int = 1, *, wait: float = DEFAULT_WAIT) -> Stop:
        """Process the next node, or several.

        Args:
            count: how many.
            wait: how many seconds to wait while no node is ready.
        """
        target = self.position + count
        return self._advance(lambda: self.position >= target, wait)

    def resume(self, *, wait: float = DEFAULT_WAIT) -> Stop:
        """Go on to a breakpoint, an error or the end."""
        return self._advance(lambda: False, wait)

    def next_iteration(self, *, wait: float = DEFAULT_WAIT) -> Stop:
        """Go on until the next node is in another iteration of the innermost loop, or outside.

        Outside of loops, this is `step`.
        """
        here = self._next_levels()
        if not here:
            return self.step(wait=wait)

        def has_left() -> bool:
            return self._next_levels()[: len(here)] != here

        return self._advance(has_left, wait)

    def out(self, *, wait: float = DEFAULT_WAIT) -> Stop:
        """Go on until the next node is outside of the innermost loop or function.

        Outside of both, this goes on to a breakpoint, an error or the end.
        """
        here = self._next()
        levels, depth = self._next_levels(), -1 if here is None else self._depth(here)

        def has_left() -> bool:
            following = self._next()
            if following is None:
                return False
            names = [name for name, _ in self.recording.levels(following)]
            inside = [name for name, _ in levels]
            is_outside = names[: len(inside)] != inside or (
                self.recording.levels(following)[: len(levels) - 1] != levels[:-1]
            )
            return (bool(levels) and is_outside) or self._depth(following) < depth

        return self._advance(has_left, wait)

    def back(self, count: int = 1) -> Stop:
        """Look at an earlier position; what has happened is not undone.

        Args:
            count: how many nodes to go back.
        """
        return self.go_to(max(self.position - count, 0))

    def go_to(self, position: int) -> Stop:
        """Look at a position between 0 and the number of nodes that are done.

        Raises:
            InvalidArgumentError: there is no such position yet.
        """
        if not 0 <= position <= len(self.recording):
            raise InvalidArgumentError(
                f"position {position} is not recorded; go to 0 to {len(self.recording)}, and from "
                "there on step by step"
            )
        self._cursor = None if position == len(self.recording) else position
        return Stop("step", f"at position {position} of {len(self.recording)}", position)

    def feed(self, tensor: str, value: Any) -> None:
        """Feed a tensor of a partial run.

        Raises:
            InvalidArgumentError: the value does not fit, or it is not a feed of a partial run.
        """
        self._step.feed(tensor if ":" in tensor else f"{tensor}:0", value)

    def results(self) -> Any:
        """Return the fetches of the step, in the structure that was requested.

        Raises:
            FailedPreconditionError: the step has not ended.
            OpError: the error of the step.
        """
        return self._rebuild(self._step.results())

    def close(self) -> None:
        """End the step: its waiting kernels are cancelled, its other nodes do not run."""
        if not self.is_done:
            self._step.cancel()
            while (run := self._ready_run()) is not None:
                self._step.run_next(run)
            if not self.is_done:
                self._step.drain()

    # Looking around

    def where(self) -> str:
        """Return the next node with its frames, its inputs, and what was done last, as text."""
        return "\n".join(self._where_lines())

    def next_node(self) -> str | None:
        """Return the name of the next node; None if no node is ready."""
        following = self._next()
        return None if following is None else self.recording.name(following)

    def iteration(self) -> str:
        """Return the frames and iterations around the next node; "" outside of loops."""
        following = self._next()
        return "" if following is None else self.recording.iteration(following)

    def value(self, tensor: str, iteration: str | None = None) -> RecordedValue | None:
        """Return the latest value of a tensor before this position; see `Recording.value`."""
        return self.recording.value(tensor, iteration, stop=self.position)

    def waiting(self, *, all_nodes: bool = False) -> list[WaitingNode]:
        """Return the nodes that are ready, running or waiting, with their counters.

        At the latest position these are the executors' own counters; in the past, they follow from
        the recording.

        Args:
            all_nodes: whether to include nodes of which no input has arrived; at the latest
                position only.
        """
        past = self.recording.waiting_at(self.position)
        if self.is_in_past:
            return past
        touched = {(node.name, node.iteration) for node in past}
        found = []
        for run in self._runs:
            instances = [(i, "ready") for i in run.ready()]
            instances += [(i, "running") for i in run.in_flight()]
            found += [self._waiting_node(run, i)._replace(state=s) for i, s in instances]
            for count in run.pending():
                instance = NodeInstance(count.node, count.iteration)
                node = self._waiting_node(run, instance)
                if all_nodes or (node.name, node.iteration) in touched:
                    pending, dead = count.pending, count.dead
                    found.append(node._replace(state="pending", pending=pending, dead=dead))
        return found

    def dead(self) -> list[str]:
        """Return the nodes that were dead so far, one line each."""
        events = self.recording.events[: self.position]
        return [self.recording.describe(i) for i, event in enumerate(events) if event.is_dead]

    def frames(self) -> list[FrameProgress]:
        """Return the frames that are not done at the latest position."""
        return [frame for run in self._runs for frame in run.frames()]

    def waits(self) -> list[WaitRecord]:
        """Return what running nodes wait for, such as an element of a queue, and who could help."""
        return self._step.waits()

    # What the executors report

    def run_started(self, run: SteppableRun) -> None:
        """See `StepDriver`."""
        self._runs.append(run)
        self._recorder.run_started(run)

    def node_done(self, run: SteppableRun, instance: NodeInstance, outputs: Sequence[Any]) -> None:
        """See `StepDriver`."""
        event = self._recorder.node_done(run, instance, outputs)
        for breakpoint_ in self.breakpoints.values():
            if breakpoint_.is_after(self.recording, event):
                self._hits.append(breakpoint_)

    def node_failed(self, run: SteppableRun, instance: NodeInstance, error: OpError) -> None:
        """See `StepDriver`."""
        if self._failed is None:
            place = self._recorder.instance(run, instance)
            iteration = self.recording.iteration(place)
            where = f" in {iteration}" if iteration else ""
            self._failed = f"node '{self.recording.name(place)}'{where}", error

    def run_ended(self, run: SteppableRun, error: OpError | None) -> None:
        """See `StepDriver`."""
        del error
        self._runs.remove(run)

    # Inside

    def _add(self, breakpoint_: Breakpoint) -> Breakpoint:
        self._num_breakpoints += 1
        breakpoint_.number = self._num_breakpoints
        self.breakpoints[breakpoint_.number] = breakpoint_
        return breakpoint_

    def _advance(self, is_there: Callable[[], bool], wait: float) -> Stop:
        """Go on until `is_there` returns true after a node, or something else stops the step."""
        is_first, self._has_moved = self._has_moved, True
        while True:
            # A breakpoint at the place where the step stopped must not stop it there again.
            stop = self._stop_before() if not is_first else None
            if stop is not None:
                return stop
            if self._cursor is not None:
                stop = self._step_in_past()
            else:
                stop = self._step_live(wait)
            is_first = False
            if stop is not None:
                return stop
            if is_there():
                return Stop("step", self._where_lines()[0], self.position)

    def _step_in_past(self) -> Stop | None:
        """Go one node further in the recording."""
        cursor = self._cursor or 0
        event = self.recording.events[cursor]
        self._cursor = cursor + 1 if cursor + 1 < len(self.recording) else None
        for breakpoint_ in self.breakpoints.values():
            if breakpoint_.is_after(self.recording, event):
                return self._hit(breakpoint_, f" after {self.recording.describe(cursor)}")
        return None

    def _step_live(self, wait: float) -> Stop | None:
        """Process the next node; wait for one if none is ready."""
        deadline = monotonic() + wait
        while (run := self._ready_run()) is None:
            stop = self._stop_after() or self._ended()
            if stop is not None:
                return stop
            try:
                has_posted = self._step.run_posted(max(deadline - monotonic(), 0.0), is_idle=True)
            except KeyboardInterrupt:
                return self._waiting_stop("interrupted")
            if not has_posted:
                return self._waiting_stop("waiting")
        self._step.run_next(run)
        return self._stop_after() or self._ended()

    def _ready_run(self) -> SteppableRun | None:
        """Return the run whose node is next: the latest one, so that a call goes before others."""
        while not self.is_done and self._step.run_posted():
            pass
        return next((run for run in reversed(self._runs) if run.next_ready() is not None), None)

    def _stop_before(self) -> Stop | None:
        following = self._next()
        if following is None:
            return None
        last = self._last_node()
        for breakpoint_ in self.breakpoints.values():
            if breakpoint_.is_before(self.recording, following, last):
                return self._hit(breakpoint_, "")
        return None

    def _stop_after(self) -> Stop | None:
        if self._failed is not None and self.error is None:
            where, self.error = self._failed
            self._finish()
            text = f"{where} failed: {type(self.error).__name__}: {self.error}"
            return Stop("error", text, self.position)
        if self._hits:
            breakpoint_ = self._hits[0]
            self._hits.clear()
            last = self.recording.describe(len(self.recording) - 1)
            return self._hit(breakpoint_, f" after {last}")
        return None

    def _finish(self) -> None:
        """End a step that has failed: other partitions stop, waiting kernels are cancelled."""
        self.close()
        self.error = self._step.error or self.error
        self.recording.error = str(self.error)

    def _ended(self) -> Stop | None:
        if not self.is_done:
            return None
        self.recording.is_complete = True
        self.error = self._step.error
        if self.error is not None:
            self.recording.error = str(self.error)
            return Stop("error", f"the step failed: {self.error}", self.position)
        return Stop("end", f"the step has ended after {len(self.recording)} nodes", self.position)

    def _waiting_stop(self, reason: str) -> Stop:
        lines = [str(wait) for wait in self.waits()]
        if not lines:
            lines = [str(node) for node in self.waiting() if node.state == "running"]
        self.recording.waiting = tuple(lines)
        start = "interrupted" if reason == "interrupted" else "no node is ready"
        return Stop(reason, f"{start}: " + ("; ".join(lines) or "nothing waits"), self.position)

    def _hit(self, breakpoint_: Breakpoint, text: str) -> Stop:
        breakpoint_.num_hits += 1
        where = text or f" before {self._where_lines()[0].removeprefix('next: ')}"
        reason = f"breakpoint {breakpoint_.number} ({breakpoint_}){where}"
        return Stop("breakpoint", reason, self.position)

    def _next(self) -> Instance | None:
        """Return the next node."""
        if self._cursor is not None:
            return self.recording.events[self._cursor].instance
        run = self._ready_run()
        ready = None if run is None else run.next_ready()
        return None if run is None or ready is None else self._recorder.instance(run, ready)

    def _last_node(self) -> Instance | None:
        """Return the latest node that is done; the arguments of a call are there before any."""
        events = self.recording.events[max(self.position - _MAX_ARGUMENTS, 0) : self.position]
        instances = (event.instance for event in reversed(events))
        nodes = (i for i in instances if not self.recording.node_of(i).is_argument)
        return next(nodes, None)

    def _next_levels(self) -> tuple[tuple[str, int], ...]:
        following = self._next()
        return () if following is None else self.recording.levels(following)

    def _depth(self, instance: Instance) -> int:
        """Return how many calls of functions a node is inside of."""
        caller = self.recording.runs[instance.run].caller
        return 0 if caller is None else 1 + self._depth(caller)

    def _waiting_node(self, run: SteppableRun, instance: NodeInstance) -> WaitingNode:
        place = self._recorder.instance(run, instance)
        return self.recording.waiting_node(place, self.position)

    def _where_lines(self) -> list[str]:
        recording, following = self.recording, self._next()
        if following is None:
            ended = "the step has ended" if self.is_done else "no node is ready"
            lines = [f"next: none, {ended}"]
        else:
            node, iteration = recording.node_of(following), recording.iteration(following)
            where = f" in {iteration}" if iteration else ""
            device = recording.graphs[recording.runs[following.run].graph].device
            lines = [f"next: {recording.name(following)} ({node.op}){where}", f"  on {device}"]
            for name, value in recording.inputs(following):
                lines.append(f"  input {name} = {'dead' if value is None else value}")
        if self.position:
            lines.append(f"last: {recording.describe(self.position - 1)}")
        suffix = " (in the past)" if self.is_in_past else ""
        lines.append(f"position {self.position} of {len(recording)}{suffix}")
        return lines


def record(
    session: Session,
    fetches: Any,
    feed_dict: Mapping[Any, Any] | None = None,
    *,
    targets: Iterable[Any] = (),
    max_value_bytes: int = MAX_VALUE_BYTES,
    max_total_bytes: int = MAX_TOTAL_BYTES,
    wait: float | None = None,
) -> Recording:
    """Run a step to its end and return its recording; one that fails is recorded up to there.

    Args:
        session, fetches, feed_dict, targets, max_value_bytes, max_total_bytes: as for `Debugger`.
        wait: after how many seconds without progress to end the step; None for never.

    Raises:
        UnimplementedError: the session is on a server.
        OpError: as for `Session.run`, before the step starts.
        KeyboardInterrupt: the step was interrupted while it waited.
    """
    with Debugger(
        session,
        fetches,
        feed_dict,
        targets=targets,
        max_value_bytes=max_value_bytes,
        max_total_bytes=max_total_bytes,
    ) as debugger:
        seconds = DEFAULT_WAIT if wait is None else wait
        while True:
            stop = debugger.resume(wait=seconds)
            if stop.reason == "interrupted":
                raise KeyboardInterrupt(stop.text)
            if stop.reason != "waiting" or wait is not None:
                return debugger.recording
