"""`JoinedWrites`: send the head of a response together with its body."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

    from graphmill_plugins.serving.rest.lingering_close import LingeringClose


class JoinedWrites:
    """A transport that sends the head of a response with the first bytes of its body.

    uvicorn writes both separately, which are two system calls and often two packets: a third of the
    time of a small request. A head waits for the body, or for the end of the response; the
    application sends both at once. What is written after the connection was closed is dropped:
    uvicorn answers pipelined requests also after their client has gone.

    Args:
        transport: the transport to wrap, which also provides all other methods.
    """

    def __init__(self, transport: asyncio.Transport | LingeringClose) -> None:
        self._transport = transport
        self._head = b""
        # Bound once, as each response calls them.
        self.is_closing = transport.is_closing
        self._send = transport.write

    def write(self, data: bytes) -> None:
        """Send data, or keep it if it is a head."""
        if self.is_closing():
            return
        head, self._head = self._head, b""
        if head:
            self._send(head + data)
        elif _is_head(data):
            self._head = data
        else:
            self._send(data)

    def flush(self) -> None:
        """Send a head that waits for a body; answers to HEAD have none."""
        head, self._head = self._head, b""
        if head and not self.is_closing():
            self._send(head)

    def close(self) -> None:
        """Send a head that waits, and close."""
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def _is_head(data: bytes) -> bool:
    """Return whether data is the whole head of a response, and not a provisional one."""
    return (
        data.startswith(b"HTTP/1.1 ")
        and data.endswith(b"\r\n\r\n")
        and not data.startswith(b"HTTP/1.1 1")
    )
