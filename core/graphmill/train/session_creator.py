"""`SessionCreator`: creates the sessions of a `MonitoredSession`, ready for the first step.

Semantics: `ChiefSessionCreator` and `WorkerSessionCreator` in
tensorflow/python/training/monitored_session.py.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from graphmill.errors import DeadlineExceededError, InvalidArgumentError
from graphmill.session.session import Session
from graphmill.train.scaffold import Scaffold

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from graphmill.plugin.host import Host

    Path = str | os.PathLike[str]


class SessionCreator(ABC):
    """Creates sessions with initialized variables."""

    scaffold: Scaffold

    @abstractmethod
    def create_session(self) -> Session:
        """Return a new session that can run steps.

        Raises:
            OpError: it cannot be created, or its variables cannot be initialized.
        """


class ChiefSessionCreator(SessionCreator):
    """Restores each new session from the latest checkpoint, or initializes it.

    Args:
        scaffold: the graph and its initialization; by default a `Scaffold` of the default graph.
        master: the target of the sessions; empty for this process.
        config: their `ConfigProto`.
        checkpoint_dir: the folder of the checkpoints; None to initialize every session.
        checkpoint_filename_with_path: the prefix of a checkpoint from which each session is
            restored, instead of the latest one of a folder.
        host: supplies kernels and devices; by default the default host.

    Raises:
        InvalidArgumentError: both a folder and a checkpoint are given.
    """

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        checkpoint_dir: Path | None = None,
        checkpoint_filename_with_path: Path | None = None,
        *,
        host: Host | None = None,
    ) -> None:
        self.scaffold = Scaffold() if scaffold is None else scaffold
        self._master, self._config, self._host = master, config, host
        if checkpoint_dir is not None and checkpoint_filename_with_path is not None:
            raise InvalidArgumentError(
                "give either checkpoint_dir or checkpoint_filename_with_path"
            )
        self._checkpoint_dir, self._checkpoint = checkpoint_dir, checkpoint_filename_with_path

    def create_session(self) -> Session:
        """Return a new session with initialized variables; see `SessionCreator`."""
        self.scaffold.finalize()
        session = Session(self._master, self.scaffold.graph, self._config, self._host)
        try:
            self.scaffold.initialize(session, self._checkpoint_dir, self._checkpoint)
        except BaseException:
            session.close()
            raise
        return session


class WorkerSessionCreator(SessionCreator):
    """Waits in each new session until the chief has initialized the variables.

    Args:
        scaffold, master, config, host: as in `ChiefSessionCreator`.
        max_wait_secs: how many seconds to wait.
        recovery_wait_secs: how many seconds to wait between two checks.
    """

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        max_wait_secs: float = 30 * 60,
        recovery_wait_secs: float = 1.0,
        *,
        host: Host | None = None,
    ) -> None:
        self.scaffold = Scaffold() if scaffold is None else scaffold
        self._master, self._config, self._host = master, config, host
        self._max_wait_secs = max_wait_secs
        self._recovery_wait_secs = recovery_wait_secs
        self._between_checks = threading.Event()

    def create_session(self) -> Session:
        """Return a new session whose variables another process has initialized.

        Raises:
            DeadlineExceededError: some variables have no value after `max_wait_secs`; the error
                names them.
            OpError: the session cannot be created.
        """
        self.scaffold.finalize()
        session = Session(self._master, self.scaffold.graph, self._config, self._host)
        try:
            self._wait(session, self.scaffold.unset_before_local_init)
            self.scaffold.run_local_init(session)
            if self.scaffold.ready_op is not None:
                self._wait(session, self.scaffold.unset_variables)
        except BaseException:
            session.close()
            raise
        return session

    def _wait(self, session: Session, unset: Callable[[Session], list[str]]) -> None:
        deadline = time.monotonic() + self._max_wait_secs
        while left := unset(session):
            if time.monotonic() >= deadline:
                raise DeadlineExceededError(
                    f"after {self._max_wait_secs:g} s these variables have no value: "
                    f"{', '.join(left)}; check that the chief is running, which initializes them"
                )
            self._between_checks.wait(self._recovery_wait_secs)
