"""`DirectExchange`: a request that arrived completely, answered without ASGI's messages.

For a small request, ASGI's scope, messages and events would double the time spent on HTTP.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from graphmill_plugins.serving.requests.eager_task import eager_task

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from graphmill_plugins.serving.rest.http_request import HttpResponse

_NOBODY_WAITS: Final = asyncio.Event()


class Connection(Protocol):
    """The part of uvicorn's protocol that an exchange uses."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    tasks: set[asyncio.Task[None]]
    flow: Any
    server_state: Any

    def on_response_complete(self) -> None:
        """Continue with the next request."""


class DirectExchange:
    """A request and its response; the attributes are those that uvicorn expects of its "cycle".

    Args:
        connection: its connection.
        keep_alive: whether the connection stays open.

    Attributes:
        keep_alive: as above; uvicorn sets it to False when the server ends.
        disconnected: whether the client has gone.
        response_started, response_complete: how far the response is.
        body, more_body, message_event: would be for later parts of the body; there are none.
    """

    message_event: Final = _NOBODY_WAITS
    body: Final = b""
    more_body: Final = False

    def __init__(self, connection: Connection, *, keep_alive: bool) -> None:
        self._connection = connection
        self.keep_alive = keep_alive
        self.disconnected = False
        self.response_started = False
        self.response_complete = False

    def start(self, response: Awaitable[HttpResponse | None]) -> None:
        """Send the response to the request, from a task if it has to wait."""
        connection = self._connection
        task = eager_task(connection.loop, self._answer(response))
        if not task.done():
            connection.tasks.add(task)
            task.add_done_callback(connection.tasks.discard)

    async def _answer(self, awaited: Awaitable[HttpResponse | None]) -> None:
        try:
            response = await awaited
            if self._connection.flow.write_paused and not self.disconnected:
                await self._connection.flow.drain()
            if response is not None and not self.disconnected:
                self._write(response)
        finally:
            if not self.response_complete:
                self._connection.transport.close()

    def _write(self, response: HttpResponse) -> None:
        connection = self._connection
        if (b"connection", b"close") in response.headers:
            self.keep_alive = False
            more = b""
        else:
            more = b"" if self.keep_alive else b"connection: close\r\n"
        defaults = b"".join(
            [b"%b: %b\r\n" % one for one in connection.server_state.default_headers]
        )
        connection.transport.write(
            b"%b%b%b%b\r\n%b"
            % (STATUS_LINE[response.status], defaults, response.header_lines(), more, response.body)
        )
        self.response_started = self.response_complete = True
        if not self.keep_alive:
            connection.transport.close()
        connection.on_response_complete()
