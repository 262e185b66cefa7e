"""Partial runs: one step, fed and fetched piece by piece (clause S8).

Semantics: `PRunSetup` and `PRun` in `tensorflow/core/common_runtime/direct_session.cc`. The step
makes progress only in the threads that call `run`, one at a time; between calls it is idle.
"""

from __future__ import annotations

import itertools
import threading
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import proto
from graphmill.errors import (
    CancelledError,
    InternalError,
    InvalidArgumentError,
    OpError,
    UnimplementedError,
)
from graphmill.runtime.executor import ExecutorArgs, ExecutorBarrier
from graphmill.runtime.process.fork import fork_safe_lock
from graphmill.runtime.rendezvous import HOST, RendezvousKey
from graphmill.runtime.steps.call_frame import CallFrame
from graphmill.runtime.steps.cancel_grace import CancellationGracePeriod
from graphmill.runtime.steps.cancellation import CancellationManager
from graphmill.runtime.steps.deadlock_detector import DeadlockDetector
from graphmill.runtime.steps.step_container import StepContainer
from graphmill.runtime.steps.step_runner import StepRunner, running
from graphmill.runtime.steps.step_stats import StepStatsCollector
from graphmill.session.options import as_message, copy_message
from graphmill.session.steps.step_ids import next_step_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from graphmill.session.direct_session import DirectSession
    from graphmill.session.executors_cache import ExecutorsAndKeys, Signature
    from graphmill.typing import Value

MAX_UNFINISHED = 256
"""Maximum number of unfinished partial runs of a session; beyond it the oldest is released."""


class RunState:
    """One partial run.

    Threads: the call that drives the step holds `lock`; other calls for the handle wait for it.

    Attributes:
        pending_feeds, pending_fetches: names that were declared and not fed or fetched yet.
        fed: names that have been fed.
    """

    def __init__(self, session: DirectSession, executors: ExecutorsAndKeys, collector: Any) -> None:
        self.lock = threading.Lock()
        self.executors = executors
        self.pending_feeds = set(executors.feeds)
        self.pending_fetches = set(executors.fetches)
        self.fed: set[str] = set()
        self.collector = collector
        self._session = session
        step_id = next_step_id()
        self._rendezvous = session.new_rendezvous(step_id)
        self._cancellation = CancellationManager(session.cancellation)
        self._args = ExecutorArgs(
            step_id,
            CallFrame((), 0),
            runner=StepRunner(session.pool),
            cancellation_manager=self._cancellation,
            rendezvous=self._rendezvous,
            session_state=session.session_state,
            stats_collector=collector,
            step_container=StepContainer(step_id),
            sync_on_finish=executors.syncs_devices,
        )
        self._barrier = ExecutorBarrier(len(executors.items), self._args)
        self._watch = DeadlockDetector(self._args)

    @property
    def is_done(self) -> bool:
        """Whether all executors have ended."""
        return self._barrier.is_done

    @property
    def is_finished(self) -> bool:
        """Whether all declared feeds and fetches are done, or the run has failed."""
        return self._barrier.error is not None or not (self.pending_feeds or self.pending_fetches)

    def start(self) -> None:
        """Start the executors; they run every node that needs no feed."""
        with np.errstate(all="ignore"), running(self._args):
            for item in self.executors.items:
                item.executor.run_async(self._args, self._barrier.partition_done)
            self._args.runner.run_posted()

    def check(self, fetches: Sequence[str], feeds: Iterable[str]) -> None:
        """Check the feeds and fetches of a call before it changes anything.

        Raises:
            InvalidArgumentError: see `Session.partial_run`.
        """
        feeds = list(feeds)
        for name in feeds:
            if name in self.fed:
                raise InvalidArgumentError(f"The feed '{name}' has already been fed.")
            if name not in self.pending_feeds:
                raise self._undeclared("feed", name, self.executors.feeds)
        for name in fetches:
            if name not in self.executors.fetches:
                raise self._undeclared("fetch", name, self.executors.fetches)
            if name not in self.pending_fetches:
                raise InvalidArgumentError(f"The fetch '{name}' has already been fetched.")
            missing = self.executors.needed_feeds[name] - self.fed - set(feeds)
            if missing:
                raise InvalidArgumentError(
                    f"The fetch '{name}' can't be computed from the feeds that have been fed so "
                    f"far; it also needs {', '.join(sorted(missing))}"
                )

    def run(self, fetches: Sequence[str], feeds: Mapping[str, Value]) -> list[Value]:
        """Send the feeds, run every node that can run, and return the fetches.

        Raises:
            OpError: the first error of the step.
        """
        with np.errstate(all="ignore"), running(self._args):
            runner = self._args.runner
            runner.run_posted()
            if self._barrier.error is not None:  # of a node that needed no feed of this call
                raise self._described(self._barrier.error)
            for name, value in feeds.items():
                self.pending_feeds.discard(name)
                self.fed.add(name)
                self._rendezvous.send(self._key(name), HOST, value)
            received = self._receive(fetches)
            with self._watch, self._grace_period():
                runner.run_until(lambda: len(received) == len(fetches) or self.is_done)
                runner.run_posted()
                if not (self.pending_feeds or self.pending_fetches) and not self.is_done:
                    runner.run_until(lambda: self.is_done)
        if self._barrier.error is not None:
            raise self._described(self._barrier.error)
        return self._results(fetches, received)

    def start_cancel(self, reason: OpError) -> None:
        """Wake all waiting nodes, so that the executors end."""
        self._cancellation.start_cancel(reason)
        self._rendezvous.start_abort(reason)

    def cancel(self, reason: OpError) -> None:
        """Cancel the run, wait for its executors to end, and free its resources."""
        self.start_cancel(reason)
        if not self.is_done:
            with suppress(OpError), self._grace_period():  # an executor may never end
                self._args.runner.run_until(lambda: self.is_done)
        self.close()

    def close(self) -> None:
        """Free the resources of the step."""
        self._args.close()
        self._cancellation.close()
        fetched = set(self.executors.fetches) - self.pending_fetches
        self._session.session_state.finish_step(self._args.step_id, fetched)
        container = self._args.step_container
        if container is not None and container.is_used:
            self._session.devices.clear_containers([container.name])

    def _described(self, error: OpError) -> OpError:
        """Return the error of the run with its operation, and what a cancelled run waited for."""
        if self._cancellation.is_cancelled:
            from graphmill.session.steps.step_waits import (
                describe_cancelled,  # few runs are cancelled
            )

            describe_cancelled(error, self._args, self._session.graph)
        self._session.add_location(error)
        return error

    def _grace_period(self) -> CancellationGracePeriod:
        return CancellationGracePeriod(self._args, [item.executor for item in self.executors.items])

    def _receive(self, fetches: Sequence[str]) -> dict[str, tuple[Value, bool]]:
        received: dict[str, tuple[Value, bool]] = {}
        post = self._args.runner.post

        def receiver(name: str) -> Callable[[Value, bool, BaseException | None], None]:
            def done(value: Value, is_dead: bool, error: BaseException | None) -> None:
                self._watch.num_clients -= 1
                if error is None:
                    post(lambda: received.__setitem__(name, (value, is_dead)))

            return done

        for name in fetches:
            self.pending_fetches.discard(name)
            self._watch.num_clients += 1
            self._rendezvous.recv_async(self._key(name), HOST, receiver(name))
        return received

    def _results(
        self, fetches: Sequence[str], received: Mapping[str, tuple[Value, bool]]
    ) -> list[Value]:
        results = []
        for name in fetches:
            if name not in received:
                raise InternalError(f"the partial run ended without computing '{name}'")
            value, is_dead = received[name]
            if is_dead:
                raise InvalidArgumentError(
                    f"fetch '{name}' was not evaluated: it is in a branch that was not taken (dead)"
                )
            if isinstance(value, np.ndarray):
                value = value.copy() if value.ndim else value[()]
            results.append(value)
        return results

    def _key(self, name: str) -> str:
        client = self._session.devices.host.attributes
        return str(RendezvousKey(client.name, client.incarnation, client.name, name))

    def _undeclared(self, role: str, name: str, declared: Sequence[str]) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"The {role} '{name}' was not declared in partial_run_setup; "
            f"declared: {', '.join(declared) or 'none'}"
        )


class PartialRuns:
    """The unfinished partial runs of one session.

    Threads: `_lock` guards the table.
    """

    def __init__(self, session: DirectSession) -> None:
        self._session = session
        self._lock = fork_safe_lock()
        self._handle_ids = itertools.count(1)
        self._states: dict[str, RunState] = {}

    def __len__(self) -> int:
        return len(self._states)

    def setup(self, key: Signature, options: Any) -> str:
        """Begin a partial run; return its handle."""
        run_options = as_message(proto.RunOptions, options, "options")
        _check_options(run_options)
        watches = run_options.debug_options.debug_tensor_watch_opts
        executors = self._session.executors(key, is_partial=True, watches=watches).executors
        is_traced = run_options.trace_level > proto.RunOptions.NO_TRACE
        state = RunState(self._session, executors, StepStatsCollector() if is_traced else None)
        handle = f"{'->'.join((','.join(key[0]), ','.join(key[1])))};{next(self._handle_ids)}"
        with self._lock:
            self._states[handle] = state
        with state.lock:
            state.start()
        self._release_oldest()
        return handle

    def abandon(self) -> None:
        """Forget all partial runs, because the child of a fork cannot continue them."""
        self._states.clear()

    def run(
        self, handle: str, fetches: Sequence[str], feeds: Mapping[str, Any], run_metadata: Any
    ) -> list[Value]:
        """Run one piece of a partial run.

        Raises:
            OpError: see `Session.partial_run`.
        """
        state = self._find(handle)
        with state.lock:
            if handle not in self._states:  # another thread finished it while this one waited
                raise self._unknown(handle)
            state.check(fetches, feeds)
            executors = state.executors
            converters = dict(zip(executors.feeds, executors.converters, strict=True))
            values = {name: converters[name](value) for name, value in feeds.items()}
            try:
                results = state.run(fetches, values)
            finally:
                if state.is_finished:
                    self._forget(handle)
                    state.cancel(CancelledError("the partial run has ended"))
                if run_metadata is not None and state.collector is not None:
                    metadata = proto.RunMetadata()
                    metadata.step_stats.ParseFromString(state.collector.serialize())
                    copy_message(metadata, run_metadata)
        return results

    def release(self, handle: str) -> None:
        """End a partial run that will not be finished.

        Raises:
            InvalidArgumentError: the handle is unknown or finished.
        """
        state = self._find(handle)
        self._end(handle, state, CancelledError("the partial run was released"))

    def cancel(self, handle: str, reason: OpError) -> None:
        """Cancel a partial run from a thread that does not drive it."""
        state = self._states.get(handle)
        if state is not None:
            state.start_cancel(reason)

    def close(self) -> None:
        """End all partial runs."""
        with self._lock:
            states = dict(self._states)
        for handle, state in states.items():
            self._end(handle, state, CancelledError("Session has been closed."))

    def _end(self, handle: str, state: RunState, reason: OpError) -> None:
        self._forget(handle)
        with state.lock:
            state.cancel(reason)

    def _release_oldest(self) -> None:
        with self._lock:
            if len(self._states) <= MAX_UNFINISHED:
                return
            handle, state = next(iter(self._states.items()))
        warnings.warn(
            f"more than {MAX_UNFINISHED} partial runs of this session are unfinished; the oldest, "
            f"{handle!r}, is released. Finish them, or call partial_run_release",
            ResourceWarning,
            stacklevel=4,
        )
        self._end(
            handle,
            state,
            CancelledError(
                "the partial run was released: it was the oldest of too many unfinished ones"
            ),
        )

    def _find(self, handle: str) -> RunState:
        with self._lock:
            state = self._states.get(handle)
        if state is None:
            raise self._unknown(handle)
        return state

    def _forget(self, handle: str) -> None:
        with self._lock:
            self._states.pop(handle, None)

    def _unknown(self, handle: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"Must run 'setup' before performing partial runs: the handle {handle!r} is unknown, "
            "or its partial run is finished"
        )


def _check_options(options: proto.RunOptions) -> None:
    """Raise UnimplementedError for an option that partial runs do not support."""
    for name in ("timeout_in_ms", "inter_op_thread_pool"):
        if getattr(options, name):
            raise UnimplementedError(
                f"partial runs do not support RunOptions.{name}; leave it out. A session's "
                "operation_timeout_in_ms does not apply to them either: end a partial run with "
                "partial_run_release"
            )
