"""`PieceFetch`: fetch a tensor in pieces, several at a time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.errors import CancelledError, InternalError, OpError, ResourceExhaustedError
from graphmill.spi import VariantRegistry
from graphmill_plugins.distributed.wire.tensor_messages import RECV_TENSOR_RESPONSE

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill_plugins.distributed.transfer.tensor_receiver import OfferedTensor

    PieceDone = Callable[[bytes | None, OpError | None], None]
    Ask = Callable[[int, PieceDone], Callable[[], None]]

WINDOW: Final = 3
"""Maximum number of pieces in flight."""
_NO_VARIANTS: Final = VariantRegistry("variant")  # pieces are bytes


class PieceFetch:
    """The fetch of one tensor.

    Args:
        offer: the tensor.
        ask: requests the piece at an offset; calls a function with the response or an error, once,
            in any thread; returns a function that cancels the call.
        done: receives the tensor or an error, once, in any thread.

    Raises:
        ResourceExhaustedError: there is no memory for the tensor.

    Threads: any may call anything; `_lock` guards everything but the buffer, of which each piece
        has
    its own part.
    """

    def __init__(
        self,
        offer: OfferedTensor,
        ask: Ask,
        done: Callable[[np.ndarray[Any, Any] | None, OpError | None], None],
    ) -> None:
        self._offer = offer
        self._ask = ask
        self._done = done
        self._lock = threading.Lock()
        self._has_ended = False
        self._next = 0
        self._num_left = offer.num_bytes
        self._piece_bytes = 0
        self._calls: dict[int, Callable[[], None]] = {}
        try:
            self._buffer = np.empty(offer.num_bytes, np.uint8)
        except MemoryError as error:
            raise ResourceExhaustedError(
                f"no memory for a tensor of {offer.num_bytes} bytes that another task sends"
            ) from error

    def start(self, first: np.ndarray[Any, Any] | None) -> None:
        """Start the fetch.

        Args:
            first: the first piece, which determines the size of the others; None to request it too.
        """
        if first is None:
            self._calls[0] = _nothing
            self._send(0)
        else:
            self._store(0, first)

    def cancel(self) -> None:
        """Cancel all calls, and end with CancelledError unless the fetch has ended."""
        self._end(CancelledError("the fetch of a tensor in pieces was cancelled"))

    def _send(self, offset: int) -> None:
        withdraw = self._ask(offset, lambda data, error: self._received(offset, data, error))
        with self._lock:
            is_late = self._has_ended
            if offset in self._calls:  # else the answer came before
                self._calls[offset] = withdraw
        if is_late:
            withdraw()

    def _received(self, offset: int, data: bytes | None, error: OpError | None) -> None:
        try:
            if data is None:
                raise error or InternalError(
                    "neither a piece of a tensor nor an error was received"
                )
            _, tensors = RECV_TENSOR_RESPONSE.decode(data, _NO_VARIANTS)
            if not tensors:
                raise InternalError("a response has no piece of the requested tensor")
            self._store(offset, tensors[0].value)
        except OpError as failure:
            self._end(failure)

    def _store(self, offset: int, piece: Any) -> None:
        """Copy a piece into the buffer, and request more.

        Raises:
            InternalError: it has an unexpected size.
        """
        size = getattr(piece, "nbytes", 0)
        self._piece_bytes = self._piece_bytes or size
        expected = min(self._piece_bytes, self._offer.num_bytes - offset)
        if not size or size != expected or piece.dtype != np.uint8:
            raise InternalError(
                f"the piece at byte {offset} of {self._offer.num_bytes} has {size} bytes; expected "
                f"{expected}"
            )
        np.copyto(self._buffer[offset : offset + size], piece)
        with self._lock:
            if self._has_ended:
                return
            self._calls.pop(offset, None)
            self._next = max(self._next, size)
            self._num_left -= size
            self._has_ended = is_done = not self._num_left
            offsets = self._next_offsets()
        for following in offsets:
            self._send(following)
        if is_done:
            array = self._buffer.view(self._offer.dtype).reshape(self._offer.shape)
            self._done(array, None)

    def _next_offsets(self) -> list[int]:
        """Return the offsets to request now, and mark them as requested; the lock must be held."""
        offsets: list[int] = []
        while len(self._calls) < WINDOW and self._next < self._offer.num_bytes:
            offsets.append(self._next)
            self._calls[self._next] = _nothing
            self._next += self._piece_bytes
        return offsets

    def _end(self, error: OpError) -> None:
        with self._lock:
            was_over, self._has_ended = self._has_ended, True
            calls, self._calls = list(self._calls.values()), {}
        for withdraw in calls:
            withdraw()
        if not was_over:
            self._done(None, error)


def _nothing() -> None:
    """Do nothing: the call has not been sent."""
