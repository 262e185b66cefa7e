"""`PieceOffers`: tensors that receivers fetch in pieces."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.spi.process import fork_safe_lock
from graphmill_plugins.distributed.transfer.settings import EXPIRY_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True)
class _Offer:
    """A tensor that has not been fetched completely.

    Attributes:
        data: its bytes, row by row.
        step_id: its step, whose end withdraws it.
        num_left: the number of bytes that have not been fetched.
        used: the time of the latest fetch.
    """

    data: memoryview
    step_id: int
    num_left: int
    used: float


class PieceOffers:
    """The tensors that receivers are fetching.

    Nothing is copied: the array is referenced, so that it is not overwritten.

    Threads: `_lock` guards the table.

    Args:
        clock: returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = fork_safe_lock()
        self._offers: dict[int, _Offer] = {}

    def __len__(self) -> int:
        return len(self._offers)

    def put(self, array: np.ndarray[Any, Any], step_id: int, transfer_id: int) -> None:
        """Offer a tensor; drop offers that have not been fetched for long."""
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        now = self._clock()
        offer = _Offer(memoryview(flat).toreadonly(), step_id, flat.nbytes, now)
        with self._lock:
            self._offers[transfer_id] = offer
            for key, other in list(self._offers.items()):
                if now - other.used > EXPIRY_SECONDS:
                    del self._offers[key]

    def take(self, transfer_id: int, offset: int, limit: int) -> memoryview | None:
        """Return a piece; None if the tensor is not, or no longer, offered, or is shorter.

        The tensor is dropped with its last byte.
        """
        with self._lock:
            offer = self._offers.get(transfer_id)
            if offer is None or not 0 <= offset < len(offer.data):
                return None
            piece = offer.data[offset : offset + limit]
            offer.num_left -= len(piece)
            offer.used = self._clock()
            if offer.num_left <= 0:
                del self._offers[transfer_id]
            return piece

    def end_step(self, step_id: int) -> None:
        """Drop the tensors of a step."""
        if not self._offers:
            return
        with self._lock:
            for key, offer in list(self._offers.items()):
                if offer.step_id == step_id:
                    del self._offers[key]

    def close(self) -> None:
        """Drop all."""
        with self._lock:
            self._offers.clear()
