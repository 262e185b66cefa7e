"""`DebugStep`: a step of a session that is driven node by node."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import (
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    OpError,
)
from graphmill.runtime.executor import ExecutorBarrier
from graphmill.runtime.rendezvous import HOST, RendezvousKey
from graphmill.runtime.stepping import DrivenArgs
from graphmill.runtime.steps.call_frame import CallFrame
from graphmill.runtime.steps.cancel_grace import CancellationGracePeriod
from graphmill.runtime.steps.cancellation import CancellationManager
from graphmill.runtime.steps.deadlock_detector import DeadlockDetector
from graphmill.runtime.steps.step_container import StepContainer
from graphmill.runtime.steps.step_runner import StepRunner, running
from graphmill.session.steps.step import step_results
from graphmill.session.steps.step_ids import next_step_id
from graphmill.session.steps.step_waits import describe_cancelled, with_users

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from graphmill.runtime.stepping import StepDriver, SteppableRun
    from graphmill.runtime.steps.waits import WaitRecord
    from graphmill.session.direct_session import DirectSession
    from graphmill.session.executors_cache import CachedExecutors, Signature
    from graphmill.typing import Value


class DebugStep:
    """One step on executors that can be stepped; it runs only during calls of its methods.

    Threads: one at a time calls its methods.

    Args:
        session: the session.
        cached: its executors.
        values: the values of the feeds by name; unused in a partial run.
        driver: drives the step.
        is_partial: whether the step is fed and fetched piece by piece.

    Raises:
        InvalidArgumentError: a value does not fit its feed.

    Attributes:
        error: the error of the step, or None.
    """

    def __init__(
        self,
        session: DirectSession,
        cached: CachedExecutors,
        values: Mapping[str, Any],
        driver: StepDriver,
        *,
        is_partial: bool = False,
    ) -> None:
        self._session = session
        self._cached = cached
        self._executors = executors = cached.executors
        self._is_partial = is_partial
        self._converters = dict(zip(executors.feeds, executors.converters, strict=True))
        feeds = () if is_partial else executors.feeds
        converted = [self._converters[name](values[name]) for name in feeds]
        step_id = next_step_id()
        self._frame = CallFrame(converted, 0 if is_partial else len(executors.fetches))
        self._cancellation = CancellationManager(session.cancellation)
        self._args = DrivenArgs(
            step_id,
            self._frame,
            driver,
            runner=StepRunner(),
            cancellation_manager=self._cancellation,
            session_state=session.session_state,
            session_handle=session.name,
            step_container=StepContainer(step_id),
            sync_on_finish=executors.syncs_devices,
        )
        if is_partial or len(executors.items) > 1:
            self._args.rendezvous = session.new_rendezvous(step_id)
        self._barrier = ExecutorBarrier(len(executors.items), self._args)
        self._watch = DeadlockDetector(self._args)
        self._is_closed = False
        self._fed: set[str] = set()
        self._received: dict[str, tuple[Value, bool]] = {}
        self.error: OpError | None = None

    @property
    def signature(self) -> Signature:
        """The names of feeds, fetches and targets, in the order of arguments and results."""
        executors = self._executors
        return executors.feeds, executors.fetches, executors.targets

    @property
    def is_done(self) -> bool:
        """Whether all partitions have ended."""
        return self._barrier.is_done

    def start(self) -> None:
        """Start the partitions; no kernel is called yet."""
        with self._driving():
            if self._args.rendezvous is not None and not self._is_partial:
                self._watch.start()
            for item in self._executors.items:
                item.executor.run_async(self._args, self._barrier.partition_done)
            if self._is_partial:
                self._receive()

    def run_next(self, run: SteppableRun) -> None:
        """Process the next ready node of a run of the step."""
        with self._driving():
            run.run_next()

    def run_posted(self, timeout: float = 0.0, *, is_idle: bool = False) -> bool:
        """Accept the outcome of one kernel that runs elsewhere; return whether there was one.

        Args:
            timeout: how many seconds to wait for one.
            is_idle: whether no node is ready, so that the step may be deadlocked.

        Raises:
            KeyboardInterrupt: the wait was interrupted; the step continues.
        """
        runner = self._args.runner
        with self._driving():
            if is_idle and not runner.has_posted:
                for watch in tuple(runner.watches):  # they detect deadlocks
                    watch()
            return runner.run_next(timeout)

    def feed(self, name: str, value: Any) -> None:
        """Feed a tensor of a partial run.

        Raises:
            InvalidArgumentError: the value does not fit the tensor, or the tensor is not a feed of
                a partial run that has not been fed.
        """
        if not self._is_partial or name not in self._converters or name in self._fed:
            missing = [feed for feed in self._converters if feed not in self._fed]
            left = ", ".join(missing) if self._is_partial else "this is not a partial run"
            raise InvalidArgumentError(f"'{name}' cannot be fed; left to feed: {left or 'nothing'}")
        converted = self._converters[name](value)
        self._fed.add(name)
        with self._driving():
            self._args.rendezvous.send(self._key(name), HOST, converted)
            if len(self._fed) == len(self._converters):
                self._watch.start()  # before that, a receive may wait for the client

    def results(self) -> list[Value]:
        """Return the values of the fetches, in the caller's order.

        Raises:
            FailedPreconditionError: the step has not ended.
            OpError: the error of the step.
        """
        if not self.is_done:
            raise FailedPreconditionError("the step has not ended, so it has no results yet")
        if self.error is not None:
            raise self.error
        if self._is_partial:
            self._frame.retvals = [
                CallFrame.UNSET if self._received[name][1] else self._received[name][0]
                for name in self._executors.fetches
            ]
        results = step_results(self._executors, self._frame)
        order = self._cached.fetch_order
        return results if order is None else [results[position] for position in order]

    def waits(self) -> list[WaitRecord]:
        """Return what the step's nodes wait for, and which nodes use the same resources."""
        own = self._args.own_cancellation
        waits = [] if own is None else own.waits()
        return with_users(waits, self._session.graph)

    def cancel(self) -> None:
        """Cancel the step; ready nodes then fail, and waiting kernels are woken."""
        if not self.is_done:
            reason = CancelledError("the debugger ended the step")
            self._cancellation.start_cancel(reason)
            self._args.start_cancel(reason)
            if self._args.rendezvous is not None:
                self._args.rendezvous.start_abort(reason)

    def drain(self) -> None:
        """Wait until a cancelled step without ready nodes has ended.

        Raises:
            CancelledError: a kernel does not end within the grace period.
        """
        executors = [item.executor for item in self._executors.items]
        with self._driving(), CancellationGracePeriod(self._args, executors):
            self._args.runner.run_until(lambda: self.is_done)

    @contextmanager
    def _driving(self) -> Iterator[None]:
        """Drive the step in a `with` block; clean up after it if the step has ended."""
        try:
            with np.errstate(all="ignore"), running(self._args):
                yield
        finally:
            if self.is_done:
                self._close()

    def _close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self.error = self._barrier.error
        if self.error is not None:
            if isinstance(self.error, CancelledError):
                describe_cancelled(self.error, self._args, self._session.graph)
            self._session.add_location(self.error)
        self._watch.stop()
        self._args.close()
        self._cancellation.close()
        fetched: Sequence[str] = self._executors.fetches if self.error is None else ()
        self._session.session_state.finish_step(self._args.step_id, fetched)
        container = self._args.step_container
        if container is not None and container.is_used:
            self._session.devices.clear_containers([container.name])

    def _receive(self) -> None:
        """Receive the fetches of a partial run as they are computed."""
        for name in self._executors.fetches:

            def done(
                value: Value, is_dead: bool, error: BaseException | None, name: str = name
            ) -> None:
                self._watch.num_clients -= 1
                if error is None:
                    self._received[name] = value, is_dead

            self._watch.num_clients += 1
            self._args.rendezvous.recv_async(self._key(name), HOST, done)

    def _key(self, name: str) -> str:
        client = self._session.devices.host.attributes
        return str(RendezvousKey(client.name, client.incarnation, client.name, name))
