"""`CallCounters`: count a server's calls by method, status and bytes."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class MethodCounter:
    """The calls of one method.

    Threads: `_lock` guards all counts.

    Attributes:
        in_flight: the number of running and waiting calls.
        request_bytes, response_bytes: the sizes of messages.
        seconds: the total duration of calls.
        codes: the number of calls that ended with each code of `graphmill.errors`; 0 is success. An
            error within a response counts too.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.in_flight = 0
        self.request_bytes = 0
        self.response_bytes = 0
        self.seconds = 0.0
        self.codes: Counter[int] = Counter()

    def begin(self, num_bytes: int) -> None:
        """Count a request."""
        with self._lock:
            self.in_flight += 1
            self.request_bytes += num_bytes

    def end(self, code: int, num_bytes: int, seconds: float) -> None:
        """Count the end of a call."""
        with self._lock:
            self.in_flight -= 1
            self.response_bytes += num_bytes
            self.seconds += seconds
            self.codes[code] += 1


class CallCounters:
    """A counter for each method of a server.

    Args:
        paths: of all methods, as `/tensorflow.MasterService/RunStep`.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self.by_path: Mapping[str, MethodCounter] = {path: MethodCounter() for path in paths}

    def num_in_flight(self, path: str) -> int:
        """Return the number of running and waiting calls of a method."""
        counter = self.by_path.get(path)
        return 0 if counter is None else counter.in_flight
