"""`ClusterPartialRuns`: steps on several tasks that are fed and fetched piece by piece (clause S8).

Semantics: `PartialRunSetup` and `DoPartialRun` in
`tensorflow/core/distributed_runtime/master_session.cc`.
"""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError
from graphmill.runtime.process.fork import fork_safe_lock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphmill.distributed.master.cluster_step import ClusterStep
    from graphmill.distributed.master.registered_signature import RegisteredSignature
    from graphmill.errors import OpError
    from graphmill.session.executors_cache import Signature
    from graphmill.typing import Value


class _PartialRun:
    """One partial run.

    Threads: `lock` is held by the call that runs a piece; calls for one handle are serialized.
    """

    def __init__(
        self, step: ClusterStep, registered: RegisteredSignature, signature: Signature
    ) -> None:
        self.lock = threading.Lock()
        self.step = step
        self.registered = registered
        self.declared = signature
        self.pending_feeds = set(signature[0])
        self.pending_fetches = set(signature[1])
        self.fed: set[str] = set()
        self.is_over = False

    def check(self, fetches: Sequence[str], feeds: Mapping[str, Any]) -> None:
        """Check a call before it has any effect.

        Raises:
            InvalidArgumentError: see `Session.partial_run`.
        """
        for name in feeds:
            if name in self.fed:
                raise InvalidArgumentError(f"The feed '{name}' has already been fed.")
            if name not in self.pending_feeds:
                raise _undeclared("feed", name, self.declared[0])
        for name in fetches:
            if name not in self.declared[1]:
                raise _undeclared("fetch", name, self.declared[1])
            if name not in self.pending_fetches:
                raise InvalidArgumentError(f"The fetch '{name}' has already been fetched.")
            missing = self.registered.needed_feeds[name] - self.fed - set(feeds)
            if missing:
                raise InvalidArgumentError(
                    f"The fetch '{name}' can't be computed from the feeds that have been fed so "
                    f"far; it also needs {', '.join(sorted(missing))}"
                )

    def run(
        self, fetches: Sequence[str], feeds: Mapping[str, Any]
    ) -> tuple[list[Value], list[Any]]:
        """Feed and fetch, and record what has been fetched."""
        self.check(fetches, feeds)
        converted = {name: self.registered.converters[name](v) for name, v in feeds.items()}
        self.fed.update(feeds)
        self.pending_feeds.difference_update(feeds)
        self.pending_fetches.difference_update(fetches)
        is_last = not (self.pending_feeds or self.pending_fetches)
        try:
            unique = tuple(dict.fromkeys(fetches))
            fetched, results = self.step.run(converted, unique, None, None, is_last=is_last)
        except BaseException:
            self.end()
            raise
        if is_last:
            self.end()
        return [fetched[name] for name in fetches], results

    def end(self) -> None:
        """Clean up on all tasks; a second call does nothing."""
        if not self.is_over:
            self.is_over = True
            self.step.cancellation.close()
            self.step.clean_up()
            self.registered.release()


class ClusterPartialRuns:
    """The unfinished partial runs of a session.

    Threads: `_lock` guards the table.
    """

    def __init__(self) -> None:
        self._lock = fork_safe_lock()
        self._runs: dict[str, _PartialRun] = {}
        self._numbers = itertools.count(1)

    def add(self, step: ClusterStep, registered: RegisteredSignature, signature: Signature) -> str:
        """Start a partial run; return its handle.

        Args:
            step: its step.
            registered: the graphs that it runs; released at its end.
            signature: the declared feeds and fetches.
        """
        with self._lock:
            handle = f"{';'.join(map(','.join, signature))};{next(self._numbers)}"
            self._runs[handle] = _PartialRun(step, registered, signature)
        return handle

    def run(
        self, handle: str, fetches: Sequence[str], feeds: Mapping[str, Any]
    ) -> tuple[list[Value], list[Any]]:
        """Run one piece; return the values of the fetches, and the result of each task.

        Raises:
            InvalidArgumentError: the handle, a feed or a fetch does not fit.
            OpError: the root cause of a failure; the partial run is ended by it.
        """
        partial_run = self._find(handle)
        with partial_run.lock:
            if partial_run.is_over:
                raise _unknown(handle)
            try:
                return partial_run.run(fetches, feeds)
            finally:
                if partial_run.is_over:
                    self._drop(handle)

    def cancel(self, handle: str, reason: OpError) -> None:
        """Cancel a partial run from another thread; do nothing if it has ended."""
        with self._lock:
            partial_run = self._runs.pop(handle, None)
        if partial_run is None:
            return
        partial_run.step.cancellation.start_cancel(reason)
        with partial_run.lock:
            partial_run.end()

    def release(self, handle: str) -> None:
        """End a partial run that will not be finished.

        Raises:
            InvalidArgumentError: the handle is unknown or finished.
        """
        partial_run = self._find(handle)
        self._drop(handle)
        with partial_run.lock:
            partial_run.end()

    def close(self) -> None:
        """End all partial runs; the session has cancelled running pieces."""
        with self._lock:
            runs, self._runs = list(self._runs.values()), {}
        for run in runs:
            with run.lock:
                run.end()

    def _find(self, handle: str) -> _PartialRun:
        with self._lock:
            partial_run = self._runs.get(handle)
        if partial_run is None:
            raise _unknown(handle)
        return partial_run

    def _drop(self, handle: str) -> None:
        with self._lock:
            self._runs.pop(handle, None)


def _unknown(handle: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"no unfinished partial run has the handle {handle!r}")


def _undeclared(what: str, name: str, declared: Sequence[str]) -> InvalidArgumentError:
    known = ", ".join(declared) or "none"
    return InvalidArgumentError(
        f"The {what} '{name}' was not declared in partial_run_setup; declared: {known}"
    )
