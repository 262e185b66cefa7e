"""`BoundedProtocol`: uvicorn's HTTP protocol with limits on slow clients.

uvicorn only limits how long a connection may be idle between requests. A client that sends a byte
now and then, or never reads its response, would hold a connection for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from graphmill_plugins.serving.rest.http_status import error_body
from graphmill_plugins.serving.rest.joined_writes import JoinedWrites

if TYPE_CHECKING:
    import asyncio

MAX_HEAD_BYTES: Final = 64 << 10
"""The largest request line with headers."""


def bounded_protocol(seconds: float) -> type[HttpToolsProtocol]:
    """Return a class of protocols for a server.

    Args:
        seconds: how long a client may take to send a request, and to take in a response.
    """

    class BoundedProtocol(HttpToolsProtocol):  # type: ignore[misc]
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            self._is_in_head = True
            self._is_in_body = False
            self._head_bytes = 0
            self._receive_timer: asyncio.TimerHandle | None = None
            self._send_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(JoinedWrites(transport))
            self._receive_timer = self.loop.call_later(seconds, self._give_up_receiving)

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_receive_timer()
            self._stop_send_timer()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            self._head_bytes += len(data)
            super().data_received(data)
            if self.transport.is_closing():
                return
            if self._is_in_head and self._head_bytes > MAX_HEAD_BYTES:
                self._refuse(431, f"the headers have more than {MAX_HEAD_BYTES} bytes")
            elif not self._is_receiving():
                self._stop_receive_timer()
            elif self._receive_timer is None:
                self._receive_timer = self.loop.call_later(seconds, self._give_up_receiving)

        def on_message_begin(self) -> None:
            self._is_in_head = True
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self._is_in_head, self._is_in_body = False, True
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self._is_in_body = False
            self._head_bytes = 0
            super().on_message_complete()

        def on_response_complete(self) -> None:
            self.transport.flush()
            super().on_response_complete()

        def pause_writing(self) -> None:
            super().pause_writing()
            if self._send_timer is None:
                self._send_timer = self.loop.call_later(seconds, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._stop_send_timer()

        def _is_receiving(self) -> bool:
            return self._is_in_body or (self._is_in_head and self._head_bytes > 0)

        def _give_up_receiving(self) -> None:
            self._receive_timer = None
            if self.transport.is_closing():
                return
            if self._is_receiving():
                self._refuse(408, f"the request was not received within {seconds:g} s")
            else:
                self.transport.close()

        def _refuse(self, status: int, message: str) -> None:
            """Answer instead of the application, unless it has answered, and close."""
            if self.cycle is None or not self.cycle.response_started or self._is_in_head:
                body = error_body(message)
                head = b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body)
                self.transport.write(
                    STATUS_LINE[status] + head + b"connection: close\r\n\r\n" + body
                )
            self.transport.close()

        def _stop_receive_timer(self) -> None:
            if self._receive_timer is not None:
                self._receive_timer.cancel()
                self._receive_timer = None

        def _stop_send_timer(self) -> None:
            if self._send_timer is not None:
                self._send_timer.cancel()
                self._send_timer = None

    return BoundedProtocol
