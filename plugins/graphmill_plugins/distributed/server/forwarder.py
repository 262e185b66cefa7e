"""`Forwarder`: a local port for clients without TLS, such as TensorFlow's.

Connections are forwarded to a server by TLS, with the credentials of this process. Anyone who can
reach the port is accepted, so it listens on the loopback interface by default.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from graphmill.errors import InvalidArgumentError, OpError, UnavailableError
from graphmill_plugins._server.event_log import log_event
from graphmill_plugins.distributed.credentials import paths_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill.spi.protos import proto
    from graphmill_plugins._server.address import Address

    _Stream: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]

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
            listening = _listening_socket(self._listen)
        except OSError as error:
            self._failure = UnavailableError(
                f"the forwarder cannot listen on {self._listen}: {error.strerror or error}"
            )
            self._started.set()
            return
        connections: set[asyncio.Task[None]] = set()
        with listening:
            host, port = listening.getsockname()[:2]
            self.address = f"{host}:{port}"
            self._loop.add_reader(listening, self._accept, listening, connections)
            self._started.set()
            await self._end.wait()
            self._loop.remove_reader(listening)
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await asyncio.sleep(0)  # closed transports close their sockets in the loop's next iteration

    def _accept(self, listening: socket.socket, connections: set[asyncio.Task[None]]) -> None:
        """Start to forward a new client's data.

        `asyncio.start_server` would leave connections open that it is just accepting at the end.
        """
        try:
            client, _ = listening.accept()
        except OSError:  # the client has disconnected
            return
        client.setblocking(False)
        task = self._loop.create_task(self._forward(client))
        connections.add(task)

        def end(ended: asyncio.Task[None]) -> None:
            connections.discard(ended)
            client.close()  # a task that is cancelled early has not begun

        task.add_done_callback(end)

    async def _forward(self, client: socket.socket) -> None:
        """Forward data between a client and the server until one of them disconnects."""
        reader, writer = await asyncio.open_connection(sock=client, limit=_CHUNK)
        with _closed_at_the_end(writer):
            try:
                back, there = await asyncio.open_connection(
                    self._server.host, self._server.port, limit=_CHUNK
                )
                with _closed_at_the_end(there):
                    # Apart from the connection: asyncio leaves it open if a handshake is cancelled.
                    await there.start_tls(self._context, server_hostname=self._server.host)
                    await _exchange((reader, writer), (back, there))
            except OSError as error:
                # The client finds its connection closed, which is UNAVAILABLE.
                reason = f"{type(error).__name__}: {error}"
                log_event(_log, logging.WARNING, "not forwarded", server=self._server, why=reason)


def _listening_socket(address: Address) -> socket.socket:
    """Return a socket that listens on an address.

    Raises:
        OSError: the port is in use, or the host is not an address of this machine.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    listening = socket.create_server(tuple(address), family=family)
    listening.setblocking(False)
    return listening


@contextlib.contextmanager
def _closed_at_the_end(writer: asyncio.StreamWriter) -> Iterator[None]:
    """Close a connection at the end, without waiting for the peer."""
    transport = writer.transport
    try:
        yield
    finally:
        writer.transport.abort()  # that of TLS, if it was started
        transport.abort()


async def _exchange(client: _Stream, server: _Stream) -> None:
    """Copy data in both directions until one of them ends."""
    ways = [
        asyncio.ensure_future(_copy(client[0], server[1])),
        asyncio.ensure_future(_copy(server[0], client[1])),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(_CHUNK):
        writer.write(chunk)
        await writer.drain()
