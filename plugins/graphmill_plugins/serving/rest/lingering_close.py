"""`LingeringClose`: close a connection whose client may still be sending.

A socket that is closed with received bytes that nobody has read resets the connection, and the
client's system then discards a response that the client has not read yet (RFC 9112, section 9.6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


class LingeringClose:
    """A transport that ends its own half of a connection first while a request is arriving.

    The other half is closed when the client has closed its own, or after a time. What arrives until
    then has to be ignored by the protocol.

    Args:
        transport: the transport to wrap, which also provides all other methods.
        loop: the event loop.
        should_linger: returns whether the client may still be sending, and may end that itself.
        seconds: how long the client may go on sending.
    """

    def __init__(
        self,
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        should_linger: Callable[[], bool],
        seconds: float,
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._should_linger = should_linger
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self.write = transport.write  # which `__getattr__` would look up for each response

    @property
    def is_lingering(self) -> bool:
        """Whether only the client's half is still open."""
        return self._timer is not None

    def is_closing(self) -> bool:
        """Return whether `close` was called, or the connection is lost."""
        return self._timer is not None or self._transport.is_closing()

    def close(self) -> None:
        """Close the connection, or its half; a second call always closes it."""
        transport = self._transport
        if self.is_closing() or not self._should_linger() or not transport.can_write_eof():
            self.stop()
            transport.close()
            return
        self._timer = self._loop.call_later(self._seconds, transport.abort)
        transport.resume_reading()
        transport.write_eof()

    def stop(self) -> None:
        """Forget the time limit; the connection is closed or lost."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
