"""`TransferCounters`: count tensors and bytes by transfer path."""

from __future__ import annotations

import threading
from typing import Final

MESSAGE: Final = "message"
PIECES: Final = "pieces"
SHARED_MEMORY: Final = "shared_memory"
PATHS: Final = (MESSAGE, PIECES, SHARED_MEMORY)
"""The transfer paths of a tensor from task to task."""


class TransferCounters:
    """Counts the tensors of RecvTensor by path and direction.

    Threads: `_lock` guards the counts.

    Attributes:
        sent_bytes, received_bytes, sent_tensors, received_tensors: counts by path.
        fallbacks: how often memory could not be shared although both tasks support it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.sent_bytes = dict.fromkeys(PATHS, 0)
        self.received_bytes = dict.fromkeys(PATHS, 0)
        self.sent_tensors = dict.fromkeys(PATHS, 0)
        self.received_tensors = dict.fromkeys(PATHS, 0)
        self.fallbacks = 0

    def sent(self, path: str, num_bytes: int) -> None:
        """Count a tensor that was sent to another task."""
        with self._lock:
            self.sent_bytes[path] += num_bytes
            self.sent_tensors[path] += 1

    def received(self, path: str, num_bytes: int) -> None:
        """Count a tensor that was received from another task."""
        with self._lock:
            self.received_bytes[path] += num_bytes
            self.received_tensors[path] += 1

    def fell_back(self) -> None:
        """Count a tensor that took another path because shared memory failed."""
        with self._lock:
            self.fallbacks += 1
