"""`ModelServer`: a server of models in a thread of this process."""

from __future__ import annotations

import asyncio
import importlib.util
import socket
import threading
from typing import TYPE_CHECKING, Any, Self

from graphmill.errors import UnavailableError, UnimplementedError
from graphmill.spi import install_command
from graphmill_plugins._server.address import Address
from graphmill_plugins.serving.requests.server_core import ServerCore

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from graphmill_plugins.serving.rest.http_server import HttpServer
    from graphmill_plugins.serving.rpc.grpc_server import GrpcModelServer
    from graphmill_plugins.serving.server_options import ServerOptions

_BACKLOG = 1024
_ANSWER_SECONDS = 5.0
"""The seconds in which clients must receive their last answers."""


class ModelServer:
    """Serves models until it is stopped.

        with ModelServer(options) as server:
            print(server.http_address)

    Args:
        options: the models, addresses and limits.

    Attributes:
        http_address, grpc_address: where it listens; None if it does not.

    Threads: an event loop in a thread of its own answers all requests; models run in others.

    Raises:
        UnimplementedError: a package is missing; the message names the extra that has it.
        UnavailableError: a port is in use.
        OpError: no model could be loaded.
    """

    def __init__(self, options: ServerOptions) -> None:
        _check_packages(options)
        self._options = options
        self.http_address: Address | None = None
        self.grpc_address: Address | None = None
        self._loop = _new_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="graphmill-serving", daemon=True
        )
        self._thread.start()
        self._core: ServerCore | None = None
        self._listeners: list[HttpServer | GrpcModelServer] = []
        self._watcher: asyncio.Task[None] | None = None
        self._is_stopped = False
        try:
            self._call(self._start())
        except BaseException:
            self.stop(0)
            raise

    def stop(self, grace: float = 30.0) -> None:
        """Refuse new connections, finish the requests in progress, and unload the models.

        Safe to call twice.

        Args:
            grace: after how many seconds requests in progress are cancelled.
        """
        if self._is_stopped:
            return
        self._is_stopped = True
        self._call(self._stop(grace))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def _call(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _start(self) -> None:
        core = self._core = ServerCore(self._options)
        # A port in use is reported before the models are loaded, which may take long.
        sock = self._http_socket()
        try:
            await core.manager.start()
            if sock is not None:
                await self._start_http(core, sock)
        except BaseException:
            if sock is not None:
                sock.close()
            raise
        if self._options.grpc_port is not None:
            await self._start_grpc(core, self._options.grpc_port)
        self._watcher = asyncio.get_running_loop().create_task(core.manager.watch())

    def _http_socket(self) -> socket.socket | None:
        port = self._options.http_port
        return None if port is None else _listening_socket(Address(self._options.host, port))

    async def _start_http(self, core: ServerCore, sock: socket.socket) -> None:
        from graphmill_plugins.serving.rest.http_server import HttpServer

        self.http_address = Address(self._options.host, sock.getsockname()[1])
        server = HttpServer(core)
        await server.start(sock)
        self._listeners.append(server)

    async def _start_grpc(self, core: ServerCore, port: int) -> None:
        from graphmill_plugins.serving.rpc.grpc_server import GrpcModelServer

        server = GrpcModelServer(core)
        port = await server.start(Address(self._options.host, port))
        self.grpc_address = Address(self._options.host, port)
        self._listeners.append(server)

    async def _stop(self, grace: float) -> None:
        """Stop the started parts in reverse order."""
        if self._core is not None:
            self._core.is_draining = True
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.wait([self._watcher])
        if self._core is not None:
            manager = self._core.manager
            # Cancelled requests still get a response, so listeners may take longer.
            timer = asyncio.get_running_loop().call_later(grace, manager.give_up)
            timeout = grace + _ANSWER_SECONDS
            await asyncio.gather(*[listener.stop(timeout) for listener in self._listeners])
            timer.cancel()
            await manager.close(0)
        await asyncio.get_running_loop().shutdown_default_executor()


def _check_packages(options: ServerOptions) -> None:
    for extra, port, packages in (
        ("serve", options.http_port, ("uvicorn", "httptools")),
        ("grpc", options.grpc_port, ("grpc", "grpc_health")),
    ):
        missing = [name for name in packages if importlib.util.find_spec(name) is None]
        if port is not None and missing:
            raise UnimplementedError(
                f"serving models over {'HTTP' if extra == 'serve' else 'gRPC'} needs "
                f"{' and '.join(missing)}, which is not installed: "
                f"{install_command(extra)}"
            )


def _new_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop: uvloop's, which is faster, if it is installed."""
    if importlib.util.find_spec("uvloop") is None:
        return asyncio.new_event_loop()
    import uvloop

    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def _listening_socket(address: Address) -> socket.socket:
    try:
        family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((address.host, address.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise UnavailableError(
            f"the server cannot listen on {address}: {error.strerror or error}"
        ) from error
