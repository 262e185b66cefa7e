"""`Forwarder`: a local port for clients without TLS, such as TensorFlow's.

Connections are forwarded to a server by TLS, with the credentials of this process. Anyone who can
reach the port is accepted, so it listens on the loopback interface by default.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import threading
from typing import TYPE_CHECKING, Final, Self

from graphmill.errors import InvalidArgumentError, OpError, UnavailableError
from graphmill_plugins._server.event_log import log_event
from graphmill_plugins.distributed.credentials import paths_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from graphmill.spi.protos import proto
    from graphmill_plugins._server.address import Address

_CHUNK: Final = 1 << 18
_log = logging.getLogger("graphmill.server")


def tls_context(config: proto.ConfigProto | None = None) -> ssl.SSLContext:
    """Return a client's TLS context from the config or the environment, for gRPC's HTTP/2.

    Raises:
        InvalidArgumentError: no certificates are named, or they cannot be used.
    """
    certificate, private_key, authority = paths_of(config)
    if not (certificate or authority):
        raise InvalidArgumentError(
            "a forwarder needs certificates: set GRAPHMILL_TLS_CA, and GRAPHMILL_TLS_CERTIFICATE "
            "and GRAPHMILL_TLS_PRIVATE_KEY if the server requires them"
        )
    try:
        context = ssl.create_default_context(cafile=authority or None)
        if certificate:
            context.load_cert_chain(certificate, private_key or None)
    except (OSError, ssl.SSLError) as error:
        raise InvalidArgumentError(f"the certificates cannot be used: {error}") from error
    context.set_alpn_protocols(["h2"])
    return context


class Forwarder:
    """Forwards connections until it is closed; a context manager.

    Args:
        listen: the address for clients; port 0 for a free one.
        server: the address of the server.
        context: the TLS context for the server.

    Raises:
        UnavailableError: the port is in use, or the host is not an address of this machine.

    Attributes:
        address: its address, as `127.0.0.1:7000`.
    """

    def __init__(self, listen: Address, server: Address, context: ssl.SSLContext) -> None:
        self.address = ""
        self._listen = listen
        self._server = server
        self._context = context
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._started = threading.Event()
        self._failure: OpError | None = None
        self._thread = threading.Thread(target=self._serve, name="graphmill-forward", daemon=True)
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure

    def close(self) -> None:
        """Close all connections, and stop listening; a second call does nothing."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _serve(self) -> None:
        try:
            self._loop.run_until_complete(self._listening())
        finally:
            self._loop.close()

    async def _listening(self) -> None:
        try:
            server = await asyncio.start_server(
                self._forward, self._listen.host, self._listen.port, limit=_CHUNK
            )
        except OSError as error:
            self._failure = UnavailableError(
                f"the forwarder cannot listen on {self._listen}: {error.strerror or error}"
            )
            self._started.set()
            return
        host, port = server.sockets[0].getsockname()[:2]
        self.address = f"{host}:{port}"
        self._started.set()
        await self._end.wait()
        server.close()
        connections = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward data between a client and the server until one of them disconnects."""
        async with _closed_at_the_end(writer):
            try:
                back, there = await asyncio.open_connection(
                    self._server.host, self._server.port, ssl=self._context, limit=_CHUNK
                )
            except OSError as error:
                # The client finds its connection closed, which is UNAVAILABLE.
                reason = f"{type(error).__name__}: {error}"
                log_event(_log, logging.WARNING, "not forwarded", server=self._server, why=reason)
                return
            async with _closed_at_the_end(there):
                ways = [
                    asyncio.ensure_future(_pump(reader, there)),
                    asyncio.ensure_future(_pump(back, writer)),
                ]
                try:
                    await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for way in ways:
                        way.cancel()
                    await asyncio.gather(*ways, return_exceptions=True)


@contextlib.asynccontextmanager
async def _closed_at_the_end(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    """Close a connection at the end, without waiting for the peer."""
    try:
        yield
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(_CHUNK):
        writer.write(chunk)
        await writer.drain()
