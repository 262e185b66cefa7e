"""`SignatureCache`: the registered signatures of a session, bounded in number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.runtime.process.fork import fork_safe_lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.distributed.master.registered_signature import (
        RegisteredSignature,
        SignatureKey,
    )


class SignatureCache:
    """Registered signatures by key; the least recently used one is evicted first.

    Threads: `_lock` guards the table; signatures are registered outside of it.

    Args:
        capacity: the maximum number of signatures.
    """

    def __init__(self, capacity: int = 256) -> None:
        self._lock = fork_safe_lock()
        self._capacity = capacity
        self._found: dict[SignatureKey, RegisteredSignature] = {}

    def __len__(self) -> int:
        return len(self._found)

    def acquire(
        self, key: SignatureKey, create: Callable[[SignatureKey], RegisteredSignature]
    ) -> RegisteredSignature:
        """Return a registered signature, created by the first call; the caller must `release` it.

        Raises:
            OpError: raised by `create`.
        """
        with self._lock:
            cached = self._take(key)
        if cached is not None:
            return cached
        created = create(key)
        with self._lock:
            cached = self._take(key)
            if cached is None:
                self._found[key] = created
                created.acquire()
            dropped = self._excess()
        if cached is not None:
            created.release()
        for signature in dropped:
            signature.release()
        return cached or created

    def clear(self) -> None:
        """Release all; running ones are deregistered when their steps have ended."""
        with self._lock:
            dropped, self._found = list(self._found.values()), {}
        for signature in dropped:
            signature.release()

    def _take(self, key: SignatureKey) -> RegisteredSignature | None:
        cached = self._found.pop(key, None)
        if cached is None or not cached.acquire():
            return None
        self._found[key] = cached  # behind all others: it is the one used last
        return cached

    def _excess(self) -> list[RegisteredSignature]:
        dropped = []
        while len(self._found) > self._capacity:
            dropped.append(self._found.pop(next(iter(self._found))))
        return dropped
