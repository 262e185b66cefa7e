"""`SessionCreator`: creates the sessions of a `MonitoredSession`, ready for the first step.

Semantics: `ChiefSessionCreator` and `WorkerSessionCreator` in
tensorflow/python/training/monitored_session.py.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from graphmill.errors import DeadlineExceededError
from graphmill.session.session import Session
from graphmill.train.scaffold import Scaffold

if TYPE_CHECKING:
    import os

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
        host: supplies kernels and devices; by default the default host.
    """

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        checkpoint_dir: Path | None = None,
        *,
        host: Host | None = None,
    ) -> None:
        self.scaffold = Scaffold() if scaffold is None else scaffold
        self._master, self._config, self._host = master, config, host
        self._checkpoint_dir = checkpoint_dir

    def create_session(self) -> Session:
        """Return a new session with initialized variables; see `SessionCreator`."""
        self.scaffold.finalize()
        session = Session(self._master, self.scaffold.graph, self._config, self._host)
        try:
            self.scaffold.initialize(session, self._checkpoint_dir)
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
            self._wait(session)
            self.scaffold.run_local_init(session)
        except BaseException:
            session.close()
            raise
        return session

    def _wait(self, session: Session) -> None:
        deadline = time.monotonic() + self._max_wait_secs
        while left := self.scaffold.unset_variables(session):
            if time.monotonic() >= deadline:
                raise DeadlineExceededError(
                    f"after {self._max_wait_secs:g} s these variables have no value: "
                    f"{', '.join(left)}; check that the chief is running, which initializes them"
                )
            self._between_checks.wait(self._recovery_wait_secs)
