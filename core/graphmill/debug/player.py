"""`Player`: go through the recording of a step node by node, forwards and backwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from graphmill.debug.breakpoints import (
    ANY_NODE,
    Breakpoint,
    IterationBreakpoint,
    NonFiniteBreakpoint,
    ShapeBreakpoint,
)
from graphmill.debug.known_names import KnownNames
from graphmill.debug.value_lookup import find_value, split_tensor
from graphmill.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.debug.recording import Instance, Recording, WaitingNode
    from graphmill.debug.value_lookup import FoundValue
    from graphmill.debug.values import RecordedValue
    from graphmill.graph.graph import Graph
    from graphmill.runtime.stepping import FrameProgress

_MAX_ARGUMENTS: Final = 1000  # of a function
DEFAULT_WAIT: Final = 10.0
"""The seconds that a command waits by default while no node is ready."""


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


class Player:
    """Goes through a recording node by node, from its beginning.

        x = F.placeholder("float32", [2])
        y = graphmill.ops.math.log(x, name="y")
        player = graphmill.debug.Player(graphmill.debug.record(session, y, {x: [1.0, 0.0]}))
        player.break_on_nan()
        print(player.resume())  # breakpoint 1 (nan *) after 1: y (Log) -> float32[2] [0.0, -inf]

    `Debugger` does the same with a step that runs.

    Args:
        recording: the recording.
        graph: the session's graph, to explain why a node does not run; None if there is none.

    Attributes:
        recording: the recording.
        breakpoints: the breakpoints by number.
    """

    def __init__(self, recording: Recording, graph: Graph | None = None) -> None:
        self.recording = recording
        self.breakpoints: dict[int, Breakpoint] = {}
        self._names = KnownNames(graph, recording)
        # None at the end of the recording.
        self._cursor: int | None = 0 if recording.events else None
        self._has_moved = False
        self._num_breakpoints = 0

    @property
    def position(self) -> int:
        """The number of nodes that were done at the position being viewed."""
        return len(self.recording) if self._cursor is None else self._cursor

    @property
    def is_in_past(self) -> bool:
        """Whether the position being viewed is before the latest one."""
        return self._cursor is not None

    @property
    def is_done(self) -> bool:
        """Whether the step has ended at the latest position."""
        return self.recording.is_complete

    # Breakpoints

    def break_at(self, pattern: str) -> Breakpoint:
        """Stop before a node.

        Args:
            pattern: its name; in a function, after the name of the caller and "/"; or a pattern
                such as `encoder/*`.

        Raises:
            NotFoundError: the step has no such node; the message names similar ones.
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
            NotFoundError: the step has no such loop; the message lists the loops.
        """
        self._names.check_frame(frame)
        return self._add(IterationBreakpoint(frame, iteration=iteration))

    def delete(self, number: int) -> None:
        """Remove a breakpoint.

        Raises:
            NotFoundError: there is no breakpoint with that number.
        """
        if number not in self.breakpoints:
            known = ", ".join(map(str, self.breakpoints)) or "there are none"
            raise NotFoundError(f"there is no breakpoint {number}; breakpoints: {known}")
        del self.breakpoints[number]

    # Forwards and backwards

    def step(self, count: int = 1, *, wait: float = DEFAULT_WAIT) -> Stop:
        """Process the next node, or several.

        Args:
            count: how many.
            wait: how many seconds to wait while no node is ready.
        """
        target = self.position + count
        return self._advance(lambda: self.position >= target, wait)

    def resume(self, *, wait: float = DEFAULT_WAIT) -> Stop:
        """Continue to a breakpoint, an error or the end."""
        return self._advance(lambda: False, wait)

    def next_iteration(self, *, wait: float = DEFAULT_WAIT) -> Stop:
        """Continue until the next node is in another iteration of the innermost loop, or outside.

        Outside of loops, this is `step`.
        """
        levels = self._next_levels()
        if not levels:
            return self.step(wait=wait)

        def has_left() -> bool:
            return self._next_levels()[: len(levels)] != levels

        return self._advance(has_left, wait)

    def out(self, *, wait: float = DEFAULT_WAIT) -> Stop:
        """Continue until the next node is outside of the innermost loop or function.

        Outside of both, this continues to a breakpoint, an error or the end.
        """
        node = self._next()
        levels, depth = self._next_levels(), -1 if node is None else self._depth(node)

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
        """Go back to an earlier position; effects are not undone.

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
                f"position {position} is not recorded; go to a position from 0 to "
                f"{len(self.recording)}, and continue step by step"
            )
        self._cursor = None if position == len(self.recording) else position
        return Stop("step", f"at position {position} of {len(self.recording)}", position)

    def results(self) -> Any:
        """Return the recorded values of the fetches, in the order of `recording.fetches`.

        Raises:
            FailedPreconditionError: the step did not end, or failed.
        """
        if not self.is_done or self.recording.error:
            why = self.recording.error or "it did not end"
            raise FailedPreconditionError(f"the recorded step has no results: {why}")
        return self.recording.results()

    # Inspection

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
        return self.find(tensor, iteration).value

    def find(self, tensor: str, iteration: str | None = None) -> FoundValue:
        """Return the latest value of a tensor before this position, and its iteration."""
        name, output = split_tensor(self.recording, tensor)
        is_fetch = f"{name}:{output}" in self.recording.fetches
        if name not in self.recording.names() and not is_fetch:
            self._names.check_node(name)
        return find_value(self.recording, tensor, iteration, self.position)

    def waiting(self, *, all_nodes: bool = False) -> list[WaitingNode]:
        """Return the nodes that are ready or waiting, with the counters that follow from the edges.

        Args:
            all_nodes: ignored: a recording does not have nodes that no input has reached.
        """
        del all_nodes
        return self.recording.waiting_at(self.position)

    def waits(self) -> Sequence[object]:
        """Return what running nodes waited for when the recording ended, such as a queue."""
        return () if self.is_in_past else self.recording.waiting

    def dead(self) -> list[str]:
        """Return the nodes that were dead so far, one line each."""
        events = self.recording.events[: self.position]
        return [self.recording.describe(i) for i, event in enumerate(events) if event.is_dead]

    def frames(self) -> Sequence[FrameProgress]:
        """Return the frames that are not done; a recording does not have them."""
        return ()

    # Implementation

    def _add(self, breakpoint_: Breakpoint) -> Breakpoint:
        self._num_breakpoints += 1
        breakpoint_.number = self._num_breakpoints
        self.breakpoints[breakpoint_.number] = breakpoint_
        return breakpoint_

    def _advance(self, is_reached: Callable[[], bool], wait: float) -> Stop:
        """Continue until `is_reached` returns true after a node, or something else stops it."""
        is_first, self._has_moved = self._has_moved, True
        while True:
            # A breakpoint at the node where the step stopped must not stop it there again.
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
            if is_reached():
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
        """Go past the end of the recording, which only a running step can do."""
        del wait
        position = len(self.recording)
        if self.recording.error:
            return Stop("error", f"the step failed: {self.recording.error}", position)
        if not self.is_done:
            waiting = "; ".join(self.recording.waiting) or "the step had not ended"
            return Stop("waiting", f"the recording ends here: {waiting}", position)
        return self._end_of_step()

    def _end_of_step(self) -> Stop:
        """Return the end of the step, with the breakpoints that were never hit."""
        position = len(self.recording)
        unmet = [
            f"breakpoint {b.number} ({b})" for b in self.breakpoints.values() if not b.num_hits
        ]
        text = f"the step has ended after {position} nodes"
        return Stop("end", f"{text}; never hit: {', '.join(unmet)}" if unmet else text, position)

    def _stop_before(self) -> Stop | None:
        following = self._next()
        if following is None:
            return None
        last = self._last_node()
        for breakpoint_ in self.breakpoints.values():
            if breakpoint_.is_before(self.recording, following, last):
                return self._hit(breakpoint_, "")
        return None

    def _hit(self, breakpoint_: Breakpoint, text: str) -> Stop:
        breakpoint_.num_hits += 1
        where = text or f" before {self._where_lines()[0].removeprefix('next: ')}"
        reason = f"breakpoint {breakpoint_.number} ({breakpoint_}){where}"
        return Stop("breakpoint", reason, self.position)

    def _next(self) -> Instance | None:
        """Return the next node."""
        return None if self._cursor is None else self.recording.events[self._cursor].instance

    def _last_node(self) -> Instance | None:
        """Return the latest node done that is not an argument; a call starts with these."""
        events = self.recording.events[max(self.position - _MAX_ARGUMENTS, 0) : self.position]
        instances = (event.instance for event in reversed(events))
        nodes = (i for i in instances if not self.recording.node_of(i).is_argument)
        return next(nodes, None)

    def _next_levels(self) -> tuple[tuple[str, int], ...]:
        following = self._next()
        return () if following is None else self.recording.levels(following)

    def _depth(self, instance: Instance) -> int:
        """Return the number of function calls around a node."""
        caller = self.recording.runs[instance.run].caller
        return 0 if caller is None else 1 + self._depth(caller)

    def _where_lines(self) -> list[str]:
        recording, following = self.recording, self._next()
        if following is None:
            ended = "the step has ended" if self.is_done else "no node is ready"
            lines = [f"next: none, {ended}", *map(str, self.waits())]
            if recording.failed is not None:
                lines += self._node_lines("failed", recording.failed)
        else:
            lines = self._node_lines("next", following)
        if self.position:
            lines.append(f"last: {recording.describe(self.position - 1)}")
        suffix = " (in the past)" if self.is_in_past else ""
        lines.append(f"position {self.position} of {len(recording)}{suffix}")
        return lines

    def _node_lines(self, role: str, instance: Instance) -> list[str]:
        """Return a node with its iteration, its device and the inputs that have arrived."""
        recording, node = self.recording, self.recording.node_of(instance)
        iteration = recording.iteration(instance)
        where = f" in {iteration}" if iteration else ""
        device = recording.graphs[recording.runs[instance.run].graph].device
        lines = [f"{role}: {recording.name(instance)} ({node.op}){where}", f"  on {device}"]
        for name, value in recording.inputs(instance):
            lines.append(f"  input {name} = {'dead' if value is None else value}")
        return lines
