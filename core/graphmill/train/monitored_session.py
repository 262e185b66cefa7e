"""`MonitoredSession`: runs steps with hooks and recovers from lost tasks.

Semantics: tensorflow/python/training/monitored_session.py. A step that fails with ABORTED or
UNAVAILABLE, as when a server was restarted, is run again in a new session whose variables come
from the latest checkpoint: what was trained since is trained again.
"""

from __future__ import annotations

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
    UnavailableError,
)
from graphmill.session.options import as_message, give_back
from graphmill.train.hooks import CheckpointSaverHook
from graphmill.train.session_creator import (
    ChiefSessionCreator,
    SessionCreator,
    WorkerSessionCreator,
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
    from graphmill.plugin.host import Host
    from graphmill.session.session import Session
    from graphmill.train.scaffold import Scaffold

    Path = str | os.PathLike[str]

LOST_A_TASK: Final = (AbortedError, UnavailableError)
"""What a step raises when a task of the cluster is gone or was restarted."""
_logger = logging.getLogger(__name__)


class MonitoredSession:
    """Runs steps of a training program.

        with graphmill.train.MonitoredTrainingSession(checkpoint_dir="run") as session:
            while not session.should_stop():
                session.run(train_step)

    Args:
        session_creator: makes the sessions; by default a `ChiefSessionCreator`.
        hooks: called around each step, in this order.
        max_recovery_secs: for how many seconds a new session is tried for after a task was lost;
            None for ever.
        recovery_wait_secs: how many seconds lie between two tries.

    Threads: one at a time.

    Raises:
        OpError: the first session cannot be made, for another reason than a task that is away.
    """

    def __init__(
        self,
        session_creator: SessionCreator | None = None,
        hooks: Sequence[SessionRunHook] = (),
        *,
        max_recovery_secs: float | None = None,
        recovery_wait_secs: float = 1.0,
    ) -> None:
        self._creator = session_creator or ChiefSessionCreator()
        self._hooks = tuple(hooks)
        self._max_recovery_secs = max_recovery_secs
        self._recovery_wait_secs = recovery_wait_secs
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
        """Return whether no further step is wanted."""
        return self._stops or self._is_closed

    def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        options: Any = None,
        run_metadata: Any = None,
    ) -> Any:
        """Run a step with the hooks' fetches and feeds, in a new session if a task was lost.

        Args:
            fetches, feed_dict, options, run_metadata: as of `Session.run`.

        Raises:
            FailedPreconditionError: it is closed.
            InvalidArgumentError: a hook feeds what another, or the caller, feeds.
            OpError: as of `Session.run`; ABORTED and UNAVAILABLE only when `max_recovery_secs` ran
                out without a new session.
        """
        given = as_message(proto.RunOptions, options, "options")
        while True:
            session = self._ready_session()
            try:
                return self._run_once(session, fetches, feed_dict or {}, given, run_metadata)
            except LOST_A_TASK as error:
                _logger.info("a task was lost, a new session is made: %s", error)
                self._drop_session()

    def close(self) -> None:
        """Call the hooks' `end` and close the session; idempotent.

        Raises:
            OpError: what a hook raises; the session is closed all the same.
        """
        self._close(is_well=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close(is_well=kind is None)

    def _run_once(
        self,
        session: Session,
        fetches: Any,
        feeds: Mapping[Any, Any],
        options: Any,
        run_metadata: Any,
    ) -> Any:
        context = SessionRunContext(SessionRunArgs(fetches, feeds, options), session)
        asked: dict[int, Any] = {}
        all_feeds = dict(feeds)
        for position, hook in enumerate(self._hooks):
            added = hook.before_run(context)
            if added is None:
                continue
            if added.fetches is not None:
                asked[position] = added.fetches
            _add_feeds(all_feeds, added.feed_dict, hook)
            options = merged_options(options, added.options)
        metadata = proto.RunMetadata()
        has_options = options.ByteSize() > 0 or run_metadata is not None
        wanted = {"caller": fetches, "hooks": asked}
        if has_options:
            got = session.run(wanted, all_feeds, options=options, run_metadata=metadata)
        else:
            got = session.run(wanted, all_feeds)
        for position, hook in enumerate(self._hooks):
            values = SessionRunValues(got["hooks"].get(position), options, metadata)
            hook.after_run(context, values)
        self._stops = self._stops or context.stop_requested
        if run_metadata is not None:
            give_back(metadata, run_metadata)
        return got["caller"]

    def _ready_session(self) -> Session:
        if self._is_closed:
            raise FailedPreconditionError("the MonitoredSession is closed")
        if self._session is None:
            self._session = self._recover()
        return self._session

    def _recover(self) -> Session:
        """Return a new session once the lost tasks are back."""
        limit = self._max_recovery_secs
        deadline = None if limit is None else time.monotonic() + limit
        while True:
            try:
                session = self._creator.create_session()
                for hook in self._hooks:
                    hook.after_create_session(session)
            except LOST_A_TASK as error:
                if deadline is not None and time.monotonic() >= deadline:
                    raise
                _logger.info("no new session yet: %s", error)
                self._between_tries.wait(self._recovery_wait_secs)
            else:
                return session

    def _drop_session(self) -> None:
        session, self._session = self._session, None
        if session is None:
            return
        try:
            session.close()
        except OpError as error:
            # Its server is gone, or forgot it: there is nothing left to close.
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


def MonitoredTrainingSession(  # noqa: N802 - TensorFlow's name
    master: str = "",
    is_chief: bool = True,
    checkpoint_dir: Path | None = None,
    scaffold: Scaffold | None = None,
    hooks: Sequence[SessionRunHook] = (),
    chief_only_hooks: Sequence[SessionRunHook] = (),
    save_checkpoint_secs: float | None = None,
    config: Any = None,
    max_wait_secs: float = 7200,
    save_checkpoint_steps: int | None = None,
    *,
    max_recovery_secs: float | None = None,
    recovery_wait_secs: float = 1.0,
    host: Host | None = None,
) -> MonitoredSession:
    """Return a `MonitoredSession` for the chief, which saves checkpoints, or for a worker.

    Args:
        master: the target of the sessions; empty for this process.
        is_chief: whether this process sets the variables and saves them.
        checkpoint_dir: where checkpoints are saved and found.
        scaffold: the graph, and how it begins.
        hooks, chief_only_hooks: called around each step.
        save_checkpoint_secs, save_checkpoint_steps: how often the chief saves; by default every
            600 seconds; both at once are refused.
        config: the `ConfigProto` of the sessions.
        max_wait_secs: for how many seconds a worker waits for the chief.
        max_recovery_secs, recovery_wait_secs: as of `MonitoredSession`.
        host: where kernels and devices come from.

    Raises:
        InvalidArgumentError: both ways to say how often are given.
        OpError: the first session cannot be made.
    """
    creator: SessionCreator
    every_hook = list(hooks)
    if is_chief:
        creator = ChiefSessionCreator(scaffold, master, config, checkpoint_dir, host=host)
        every_hook += chief_only_hooks
        if checkpoint_dir is not None:
            if save_checkpoint_secs is None and save_checkpoint_steps is None:
                save_checkpoint_secs = 600
            every_hook.append(
                CheckpointSaverHook(
                    checkpoint_dir,
                    save_checkpoint_secs,
                    save_checkpoint_steps,
                    scaffold=creator.scaffold,
                )
            )
    else:
        creator = WorkerSessionCreator(
            scaffold, master, config, max_wait_secs, recovery_wait_secs, host=host
        )
    return MonitoredSession(
        creator,
        every_hook,
        max_recovery_secs=max_recovery_secs,
        recovery_wait_secs=recovery_wait_secs,
    )


def _add_feeds(feeds: dict[Any, Any], added: Mapping[Any, Any], hook: SessionRunHook) -> None:
    for tensor, value in added.items():
        if tensor in feeds:
            raise InvalidArgumentError(
                f"{type(hook).__name__} feeds {getattr(tensor, 'name', tensor)!r}, which is fed "
                "already by the caller or by another hook"
            )
        feeds[tensor] = value
