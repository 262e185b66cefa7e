"""`Heartbeat`: detect that a peer has stopped responding while calls are in flight.

TCP cannot distinguish a stopped process, or a network that drops everything, from a slow one. So
while a call is in flight, the peer is sent a small request from time to time; if it answers nothing
for too long, its calls fail. Without calls in flight, no such requests are sent.
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
"""Seconds that a task may be silent while calls wait for it."""
_BEATS: Final = 5
"""The number of unanswered health checks after which a task counts as lost."""


def silence_seconds(config: proto.ConfigProto | None) -> float:
    """Return the seconds that a task may be silent, from the config, environment, or default.

    Returns:
        Seconds; 0 for no limit.

    Raises:
        InvalidArgumentError: it is not a number of seconds.
    """
    value = plugin_settings(config, "distributed").get(SETTING)
    source = f"{SETTING} of plugin distributed"
    if value is None:
        value, source = os.environ.get(VARIABLE) or DEFAULT_SECONDS, VARIABLE
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise InvalidArgumentError(
            f"{source} is {value!r}; expected a number of seconds, or 0 to wait indefinitely for "
            f"a silent task"
        )
    return seconds


class Heartbeat:
    """The liveness of one peer.

    Args:
        seconds: the time for which it may be silent; 0 for no limit.
        ask: sends a request to it; its answer calls `heard`.
        give_up: fails the calls in flight; called after too long a silence.

    Attributes:
        seconds: as given.
        heard_at: the time of its last message, by `time.monotonic`; None for none.

    Threads: any may begin and end calls; the monitor's thread calls `check` and `restart`.
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
        """Whether a call is in flight."""
        return bool(self._calls)

    def begin(self, call: object) -> None:
        """Record that a call has started."""
        self._calls.add(call)
        if not _MONITOR.is_awake and self.seconds:
            _MONITOR.wake()

    def end(self, call: object) -> None:
        """Record that a call has ended."""
        self._calls.discard(call)

    def heard(self) -> None:
        """Record that the peer has sent something."""
        self.heard_at = time.monotonic()

    def check(self, now: float) -> float | None:
        """Send a request, or give up; return the time of the next check, None without calls."""
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
        """Restart the measurement of silence, because this process itself was stopped."""
        if self._watched_since is not None:
            self._watched_since = now

    def __str__(self) -> str:
        if self.heard_at is None:
            return "last heartbeat: none yet"
        ago = time.monotonic() - self.heard_at
        when = datetime.fromtimestamp(time.time() - ago, UTC)
        return f"last heartbeat: {when:%Y-%m-%d %H:%M:%S} UTC, {ago:.1f} s ago"


class HeartbeatMonitor:
    """Checks all heartbeats of this process in a thread, while calls are in flight.

    Threads: `_lock` guards the table and the start of the thread. `is_awake` is read without it: a
    call is recorded before it is read, and it is reset before the calls are checked once more.
    """

    def __init__(self) -> None:
        self.after_fork_in_child()
        track_forks(self)

    def after_fork_in_child(self) -> None:
        """Forget the heartbeats, whose connections and thread belong to the parent."""
        self.is_awake = False
        self._lock = threading.Lock()
        # Weak references: a session that is dropped without being closed must not be kept alive.
        self._heartbeats: weakref.WeakSet[Heartbeat] = weakref.WeakSet()
        self._has_work = threading.Event()
        self._has_thread = False

    def add(self, heartbeat: Heartbeat) -> None:
        """Start checking a heartbeat."""
        with self._lock:
            self._heartbeats.add(heartbeat)

    def remove(self, heartbeat: Heartbeat) -> None:
        """Stop checking a heartbeat."""
        with self._lock:
            self._heartbeats.discard(heartbeat)

    def wake(self) -> None:
        """Wake the monitor, because a call is in flight."""
        with self._lock:
            self.is_awake = True
            if not self._has_thread:
                self._has_thread = True
                watch_forks()
                threading.Thread(target=self._run, name="graphmill-heartbeat", daemon=True).start()
        self._has_work.set()

    def _run(self) -> None:
        pause = threading.Event()  # nobody sets it
        while True:
            self._has_work.wait()
            self._has_work.clear()
            planned = time.monotonic() + self._interval()
            while True:
                pause.wait(max(0.0, planned - time.monotonic()))
                next_check = self._check_all(planned)
                if next_check is None:
                    break
                planned = next_check
            self.is_awake = False
            if any(heartbeat.has_calls for heartbeat in self._all()):
                self.is_awake = True
                self._has_work.set()

    def _check_all(self, planned: float) -> float | None:
        """Check all heartbeats; return the time of the next check, None without calls."""
        now = time.monotonic()
        heartbeats = self._all()
        if now - planned > self._interval():
            for heartbeat in heartbeats:
                heartbeat.restart(now)
        times = [heartbeat.check(now) for heartbeat in heartbeats]
        return min((due for due in times if due is not None), default=None)

    def _interval(self) -> float:
        intervals = [heartbeat.interval for heartbeat in self._all() if heartbeat.seconds]
        return min(intervals, default=DEFAULT_SECONDS / _BEATS)

    def _all(self) -> list[Heartbeat]:
        with self._lock:
            return list(self._heartbeats)


_MONITOR: Final = HeartbeatMonitor()


def watch(heartbeat: Heartbeat) -> None:
    """Make the process's monitor check a heartbeat."""
    _MONITOR.add(heartbeat)


def unwatch(heartbeat: Heartbeat) -> None:
    """Make the process's monitor stop checking a heartbeat."""
    _MONITOR.remove(heartbeat)
