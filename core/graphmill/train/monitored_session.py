"""`MonitoredSession`: runs steps with hooks and recovers from lost tasks.

Semantics: tensorflow/python/training/monitored_session.py. If a step fails with ABORTED or
UNAVAILABLE, for example because a server was restarted, it runs again in a new session. The
variables are restored from the latest checkpoint, so the updates since then are lost.
"""

from __future__ import annotations

import inspect
import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from graphmill import proto
from graphmill.errors import (
    AbortedError,
    FailedPreconditionError,
    InvalidArgumentError,
    OpError,
    OutOfRangeError,
    UnavailableError,
)
from graphmill.session.options import as_message, copy_message
from graphmill.train.coordinator import Coordinator
from graphmill.train.queue_runner import start_queue_runners
from graphmill.train.session_creator import (
    ChiefSessionCreator,
    SessionCreator,
)
from graphmill.train.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
    merged_options,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from graphmill.graph.builder import Graph
    from graphmill.session.session import Session

    Path = str | os.PathLike[str]

LOST_A_TASK: Final = (AbortedError, UnavailableError)
"""The errors of a step if a task of the cluster is unreachable or was restarted."""
_logger = logging.getLogger(__name__)


class MonitoredSession:
    """Runs steps of a training program.

        w = graphmill.Variable(3.0)
        global_step = graphmill.train.get_or_create_global_step()
        train_step = graphmill.train.AdamOptimizer(0.1).minimize(w * w, global_step)
        hooks = [graphmill.train.StopAtStepHook(num_steps=5)]
        with graphmill.train.MonitoredSession(hooks=hooks) as session:
            while not session.should_stop():
                session.run(train_step)

    Args:
        session_creator: creates the sessions; by default a `ChiefSessionCreator`.
        hooks: called around each step, in this order.
        max_recovery_secs: how long to try to create a new session after a task was lost, in
            seconds; None for no limit.
        recovery_wait_secs: the number of seconds between two attempts.
        stop_grace_period_secs: how long the threads of queue runners may take to end, in seconds.

    The queue runners of the graph run as long as a session. A `with` block that ends with
    OutOfRangeError or StopIteration, the end of the input, ends well: the error goes no further.

    Threads: one at a time.

    Raises:
        OpError: the first session cannot be created, for a reason other than an unreachable task.
    """

    def __init__(
        self,
        session_creator: SessionCreator | None = None,
        hooks: Sequence[SessionRunHook] | None = None,
        *,
        max_recovery_secs: float | None = None,
        recovery_wait_secs: float = 1.0,
        stop_grace_period_secs: float = 120,
    ) -> None:
        self._creator = session_creator or ChiefSessionCreator()
        self._hooks = tuple(hooks or ())
        self._max_recovery_secs = max_recovery_secs
        self._recovery_wait_secs = recovery_wait_secs
        self._stop_grace_period_secs = stop_grace_period_secs
        self._coordinator = Coordinator(())
        self._between_tries = threading.Event()
        self._stops = False
        self._is_closed = False
        self._session: Session | None = None
        with self.graph.as_default():
            for hook in self._hooks:
                hook.begin()
        self._session = self._recover()

    @property
    def graph(self) -> Graph:
        """The graph that its sessions run."""
        return self._creator.scaffold.graph

    def should_stop(self) -> bool:
        """Return whether a hook or thread requested a stop, or the session is closed."""
        return self._stops or self._is_closed or self._coordinator.should_stop()

    def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        options: Any = None,
        run_metadata: Any = None,
    ) -> Any:
        """Run a step with the hooks' fetches and feeds, in a new session if a task was lost.

        Args:
            fetches, feed_dict, options, run_metadata: as in `Session.run`.

        Raises:
            FailedPreconditionError: the session is closed.
            InvalidArgumentError: a hook feeds a tensor that the caller or another hook feeds.
            OpError: as in `Session.run`; ABORTED and UNAVAILABLE only if no new session could be
                created within `max_recovery_secs`.
        """
        run_options = as_message(proto.RunOptions, options, "options")
        while True:
            session = self._ready_session()
            try:
                return self._run_once(session, fetches, feed_dict or {}, run_options, run_metadata)
            except LOST_A_TASK as error:
                _logger.info("a task was lost; creating a new session: %s", error)
                self._drop_session()
            except Exception:
                # The error of a queue runner is why the step found no input.
                self._coordinator.raise_requested_exception()
                raise

    def close(self) -> None:
        """Call the hooks' `end` and close the session; idempotent.

        Raises:
            OpError: a hook raised it; the session is closed anyway.
        """
        self._close(is_well=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        is_end_of_input = kind is not None and issubclass(kind, (OutOfRangeError, StopIteration))
        self._close(is_well=kind is None or is_end_of_input)
        return is_end_of_input

    def _run_once(
        self,
        session: Session,
        fetches: Any,
        feeds: Mapping[Any, Any],
        options: Any,
        run_metadata: Any,
    ) -> Any:
        context = SessionRunContext(SessionRunArgs(fetches, feeds, options), session)
        hook_fetches: dict[int, Any] = {}
        all_feeds = dict(feeds)
        for position, hook in enumerate(self._hooks):
            added = hook.before_run(context)
            if added is None:
                continue
            if added.fetches is not None:
                hook_fetches[position] = added.fetches
            _add_feeds(all_feeds, added.feed_dict, hook)
            options = merged_options(options, added.options)
        metadata = proto.RunMetadata()
        has_options = options.ByteSize() > 0 or run_metadata is not None
        requested = {"caller": fetches, "hooks": hook_fetches}
        if has_options:
            results = session.run(requested, all_feeds, options=options, run_metadata=metadata)
        else:
            results = session.run(requested, all_feeds)
        for position, hook in enumerate(self._hooks):
            values = SessionRunValues(results["hooks"].get(position), options, metadata)
            hook.after_run(context, values)
        self._stops = self._stops or context.stop_requested
        if run_metadata is not None:
            copy_message(metadata, run_metadata)
        return results["caller"]

    def _ready_session(self) -> Session:
        if self._is_closed:
            raise FailedPreconditionError("the MonitoredSession is closed")
        if self._session is None:
            self._session = self._recover()
        return self._session

    def _recover(self) -> Session:
        """Return a new session; retry until the lost tasks are available again."""
        limit = self._max_recovery_secs
        deadline = None if limit is None else time.monotonic() + limit
        while True:
            try:
                session = self._creator.create_session()
                self._coordinator = Coordinator(())
                start_queue_runners(session, self._coordinator, runners=self.graph.queue_runners)
                for hook in self._hooks:
                    _notify_of_session(hook, session, self._coordinator)
            except LOST_A_TASK as error:
                if deadline is not None and time.monotonic() >= deadline:
                    raise
                _logger.info("cannot create a new session yet: %s", error)
                self._between_tries.wait(self._recovery_wait_secs)
            else:
                return session

    def _drop_session(self) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        self._coordinator.request_stop()
        try:
            self._coordinator.join(
                stop_grace_period_secs=self._stop_grace_period_secs, ignore_live_threads=True
            )
        except LOST_A_TASK as error:
            _logger.info("a queue runner of the lost session failed: %s", error)
        finally:
            self._close_session(session)

    @staticmethod
    def _close_session(session: Session) -> None:
        try:
            session.close()
        except OpError as error:
            # Its server is gone or was restarted, so there is nothing left to close.
            _logger.info("the lost session could not be closed: %s", error)

    def _close(self, *, is_well: bool) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        try:
            if is_well and self._session is not None:
                for hook in self._hooks:
                    hook.end(self._session)
        finally:
            self._drop_session()


def _notify_of_session(hook: SessionRunHook, session: Session, coordinator: Coordinator) -> None:
    """Call `after_create_session`, with the coordinator if the hook takes it."""
    method: Any = hook.after_create_session
    if len(inspect.signature(method).parameters) > 1:
        method(session, coordinator)
    else:
        method(session)


def _add_feeds(feeds: dict[Any, Any], added: Mapping[Any, Any], hook: SessionRunHook) -> None:
    for tensor, value in added.items():
        if tensor in feeds:
            raise InvalidArgumentError(
                f"{type(hook).__name__} feeds {getattr(tensor, 'name', tensor)!r}, which the "
                "caller or another hook already feeds"
            )
        feeds[tensor] = value
