"""`Debugger`: run a step node by node, stop at breakpoints, inspect values, and go back."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from graphmill.debug.player import DEFAULT_WAIT, Player, Stop
from graphmill.debug.recorder import Recorder
from graphmill.debug.recording import Recording, WaitingNode
from graphmill.debug.values import MAX_TOTAL_BYTES, MAX_VALUE_BYTES, ValueStore
from graphmill.runtime.process.defer_sigint import DeferredInterrupt
from graphmill.runtime.stepping import NodeInstance, StepDriver

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType

    from graphmill.debug.breakpoints import Breakpoint
    from graphmill.debug.recording import Instance
    from graphmill.errors import OpError
    from graphmill.runtime.stepping import FrameProgress, SteppableRun
    from graphmill.runtime.steps.waits import WaitRecord
    from graphmill.session.session import Session


class Debugger(Player, StepDriver):
    """Runs one step node by node.

        x = F.placeholder("float32", [2])
        y = graphmill.ops.math.log(x, name="y")
        with graphmill.debug.Debugger(session, -y, {x: [1.0, 0.0]}) as debugger:
            debugger.break_on_nan()
            debugger.resume()
            print(debugger.where().splitlines()[0])  # next: Neg (Neg)

    The step uses the session's variables, queues and random numbers, and computes what `run` would.
    Nothing is compiled in it, and its kernels run one after the other in the calling thread: the
    nodes of an iteration before those of the next one. Everything that happens is recorded, and the
    debugger can go back to look; effects are not undone, so the step continues from where it was.
    Leaving the `with` block ends the step.

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
        super().__init__(Recording(*self._step.signature), session.graph)
        self._cursor = None
        self._recorder = Recorder(self.recording, ValueStore(max_value_bytes, max_total_bytes))
        self.error: OpError | None = None
        self._runs: list[SteppableRun] = []
        self._failed: tuple[str, OpError] | None = None  # the first node that failed
        self._hits: list[Breakpoint] = []
        self._step.start()

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

    # Inspection

    def waiting(self, *, all_nodes: bool = False) -> list[WaitingNode]:
        """Return the nodes that are ready, running or waiting, with their counters.

        At the latest position these are the executors' own counters; in the past, they follow from
        the recording.

        Args:
            all_nodes: whether to include nodes that no input has reached; at the latest position
                only.
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

    def frames(self) -> list[FrameProgress]:
        """Return the frames that are not done at the latest position."""
        return [frame for run in self._runs for frame in run.frames()]

    def waits(self) -> list[WaitRecord]:
        """Return what running nodes wait for, such as an element of a queue."""
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
            failed = self.recording.failed = self._recorder.instance(run, instance)
            iteration = self.recording.iteration(failed)
            where = f" in {iteration}" if iteration else ""
            self._failed = f"node '{self.recording.name(failed)}'{where}", error

    def run_ended(self, run: SteppableRun, error: OpError | None) -> None:
        """See `StepDriver`."""
        del error
        self._runs.remove(run)

    # Implementation

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
        try:
            with DeferredInterrupt(is_forceful_twice=True):
                self._step.run_next(run)
        except KeyboardInterrupt:
            if self.is_done:  # by a second interrupt, while the kernel ran
                raise
            return Stop("interrupted", "interrupted between two nodes", self.position)
        return self._stop_after() or self._ended()

    def _ready_run(self) -> SteppableRun | None:
        """Return the run whose node is next: the latest one, so that nodes of a call run first."""
        while not self.is_done and self._step.run_posted():
            pass
        return next((run for run in reversed(self._runs) if run.next_ready() is not None), None)

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
        return self._end_of_step()

    def _waiting_stop(self, reason: str) -> Stop:
        lines = [str(wait) for wait in self.waits()]
        if not lines:
            lines = [str(node) for node in self.waiting() if node.state == "running"]
        self.recording.waiting = tuple(lines)
        start = "interrupted" if reason == "interrupted" else "no node is ready"
        return Stop(reason, f"{start}: " + ("; ".join(lines) or "nothing waits"), self.position)

    def _next(self) -> Instance | None:
        """Return the next node."""
        if self._cursor is not None:
            return self.recording.events[self._cursor].instance
        run = self._ready_run()
        ready = None if run is None else run.next_ready()
        return None if run is None or ready is None else self._recorder.instance(run, ready)

    def _waiting_node(self, run: SteppableRun, instance: NodeInstance) -> WaitingNode:
        recorded = self._recorder.instance(run, instance)
        return self.recording.waiting_node(recorded, self.position)


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
