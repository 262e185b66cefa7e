"""`Heartbeat`: detect that a peer has stopped responding while calls are in flight.

TCP does not tell a process that was stopped, or a network that drops everything, from one that is
slow. So while a call is in flight the other end is asked something small from time to time; if it
answers nothing for too long, its calls fail. Nobody is asked while no call is in flight.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from graphmill.errors import InvalidArgumentError
from graphmill.spi import plugin_settings
from graphmill.spi.process import track_forks, watch_forks

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi.protos import proto

SETTING: Final = "silence_seconds"
VARIABLE: Final = "GRAPHMILL_SILENCE_SECONDS"
DEFAULT_SECONDS: Final = 15.0
"""For how long a task may be silent while calls wait for it."""
_BEATS: Final = 5
"""How many questions go unanswered before a task is given up."""


def silence_seconds(config: proto.ConfigProto | None) -> float:
    """Return for how long a task may be silent: by the config, the environment, or the default.

    Returns:
        Seconds; 0 if silence is not to be noticed.

    Raises:
        InvalidArgumentError: it is not a number of seconds.
    """
    found = plugin_settings(config, "distributed").get(SETTING)
    source = f"{SETTING} of distributed"
    if found is None:
        found, source = os.environ.get(VARIABLE) or DEFAULT_SECONDS, VARIABLE
    try:
        seconds = float(found)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise InvalidArgumentError(
            f"{source} is {found!r}; expected a number of seconds, or 0 to wait indefinitely for "
            f"a silent task"
        )
    return seconds


class Heartbeat:
    """The liveness of one peer.

    Args:
        seconds: for how long it may be silent; 0 for any time.
        ask: sends it a question; `heard` is called when the answer comes.
        give_up: ends the calls in flight; called when it has been silent for too long.

    Attributes:
        seconds: as given.
        heard_at: when it was heard of last, by `time.monotonic`; None for never.

    Threads: any may begin and end calls; one thread, the monitor's, calls `check` and `restart`.
    """

    __slots__ = (
        "__weakref__",
        "_ask",
        "_calls",
        "_give_up",
        "_watched_since",
        "heard_at",
        "interval",
        "seconds",
    )

    def __init__(
        self, seconds: float, ask: Callable[[], None], give_up: Callable[[], None]
    ) -> None:
        self.seconds = seconds
        self.interval = seconds / _BEATS
        self.heard_at: float | None = None
        self._ask = ask
        self._give_up = give_up
        self._calls: set[object] = set()
        self._watched_since: float | None = None

    @property
    def has_calls(self) -> bool:
        """Whether a call waits for an answer."""
        return bool(self._calls)

    def begin(self, call: object) -> None:
        """Note that a call is in flight."""
        self._calls.add(call)
        if not _MONITOR.is_awake and self.seconds:
            _MONITOR.wake()

    def end(self, call: object) -> None:
        """Note that a call has ended."""
        self._calls.discard(call)

    def heard(self) -> None:
        """Note that the other end has sent something."""
        self.heard_at = time.monotonic()

    def check(self, now: float) -> float | None:
        """Ask the other end, or give it up; return when to check again, None if nothing waits."""
        if not self._calls or not self.seconds:
            self._watched_since = None
            return None
        if self._watched_since is None:
            self._watched_since = now
        since = max(self._watched_since, self.heard_at or 0.0)
        if now - since >= self.seconds:
            self._watched_since = None
            self._give_up()
            return now + self.interval
        self._ask()
        return min(now + self.interval, since + self.seconds)

    def restart(self, now: float) -> None:
        """Count the silence from now on: this process itself did not run for a while."""
        if self._watched_since is not None:
            self._watched_since = now

    def __str__(self) -> str:
        if self.heard_at is None:
            return "last heartbeat: none yet"
        ago = time.monotonic() - self.heard_at
        when = datetime.fromtimestamp(time.time() - ago, UTC)
        return f"last heartbeat: {when:%Y-%m-%d %H:%M:%S} UTC, {ago:.1f} s ago"


class HeartbeatMonitor:
    """A thread that checks all heartbeats of this process while calls are in flight.

    Threads: `_lock` guards the table and the start of the thread. `is_awake` is read without it: a
    call is noted before it is read, and it is reset before the calls are looked at once more.
    """

    def __init__(self) -> None:
        self.after_fork_in_child()
        track_forks(self)

    def after_fork_in_child(self) -> None:
        """Forget the heartbeats, whose connections and thread are the parent's."""
        self.is_awake = False
        self._lock = threading.Lock()
        # A session that is dropped without being closed is not to be kept by this.
        self._heartbeats: weakref.WeakSet[Heartbeat] = weakref.WeakSet()
        self._wanted = threading.Event()
        self._has_thread = False

    def add(self, heartbeat: Heartbeat) -> None:
        """Check a heartbeat from now on."""
        with self._lock:
            self._heartbeats.add(heartbeat)

    def remove(self, heartbeat: Heartbeat) -> None:
        """Check a heartbeat no more."""
        with self._lock:
            self._heartbeats.discard(heartbeat)

    def wake(self) -> None:
        """Begin to check, as a call is in flight."""
        with self._lock:
            self.is_awake = True
            if not self._has_thread:
                self._has_thread = True
                watch_forks()
                threading.Thread(target=self._run, name="graphmill-heartbeat", daemon=True).start()
        self._wanted.set()

    def _run(self) -> None:
        pause = threading.Event()  # nobody sets it
        while True:
            self._wanted.wait()
            self._wanted.clear()
            planned = time.monotonic() + self._interval()
            while True:
                pause.wait(max(0.0, planned - time.monotonic()))
                found = self._check_all(planned)
                if found is None:
                    break
                planned = found
            self.is_awake = False
            if any(heartbeat.has_calls for heartbeat in self._all()):
                self.is_awake = True
                self._wanted.set()

    def _check_all(self, planned: float) -> float | None:
        """Check all; return when to do so again, None if nothing waits."""
        now = time.monotonic()
        heartbeats = self._all()
        if now - planned > self._interval():
            for heartbeat in heartbeats:
                heartbeat.restart(now)
        times = [heartbeat.check(now) for heartbeat in heartbeats]
        return min((found for found in times if found is not None), default=None)

    def _interval(self) -> float:
        found = [heartbeat.interval for heartbeat in self._all() if heartbeat.seconds]
        return min(found, default=DEFAULT_SECONDS / _BEATS)

    def _all(self) -> list[Heartbeat]:
        with self._lock:
            return list(self._heartbeats)


_MONITOR: Final = HeartbeatMonitor()


def watch(heartbeat: Heartbeat) -> None:
    """Have the process's monitor check a heartbeat."""
    _MONITOR.add(heartbeat)


def unwatch(heartbeat: Heartbeat) -> None:
    """Have the process's monitor check a heartbeat no more."""
    _MONITOR.remove(heartbeat)
