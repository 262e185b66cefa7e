"""`HttpServer`: uvicorn with the application, on an event loop that is already running."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import uvicorn

from graphmill_plugins.serving.rest.application import Application
from graphmill_plugins.serving.rest.bounded_protocol import bounded_protocol

if TYPE_CHECKING:
    import socket

    from graphmill_plugins.serving.requests.server_core import ServerCore

_BACKLOG = 1024


class HttpServer:
    """Answers HTTP requests.

    Args:
        core: the state of the server.

    Threads: all methods are for that of the event loop.
    """

    def __init__(self, core: ServerCore) -> None:
        options = core.options
        application = Application(core)
        self._config = uvicorn.Config(
            application,
            http=bounded_protocol(application, options.receive_seconds),
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=options.max_connections + 1,
            timeout_keep_alive=max(1, round(options.keep_alive_seconds)),
            backlog=_BACKLOG,
        )
        self._server = uvicorn.Server(self._config)
        self._serving: asyncio.Task[None] | None = None

    async def start(self, sock: socket.socket) -> None:
        """Accept connections on a listening socket."""
        loop = asyncio.get_running_loop()
        self._serving = loop.create_task(self._server.serve([sock]))
        while not self._server.started and not self._serving.done():
            await asyncio.sleep(0)
        if self._serving.done():
            await self._serving

    async def stop(self, grace: float) -> None:
        """Refuse new connections; requests in progress may take `grace` seconds."""
        if self._serving is None:
            return
        # With 0, uvicorn would cancel requests at once; a second suffices to answer them.
        self._config.timeout_graceful_shutdown = max(1, round(grace))
        self._server.should_exit = True
        with contextlib.suppress(asyncio.CancelledError):
            await self._serving
