"""A TCP proxy whose connections a test can freeze, like a network that drops all packets."""

from __future__ import annotations

import selectors
import socket
import threading
from typing import Self


class Proxy:
    """Forwards bytes between its clients and an address.

    Args:
        address: `HOST:PORT` of the server.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._server = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._wake, self._woken = socket.socketpair()
        self._commands: list[str] = []
        self._done = threading.Event()
        self._others: dict[socket.socket, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._command("end")
        self._thread.join()
        for end in (*self._others, self._listener, self._wake, self._woken):
            end.close()
        self._selector.close()

    def freeze(self) -> None:
        """Stop forwarding on existing connections, but keep both ends open."""
        self._command("freeze")

    def _command(self, command: str) -> None:
        self._done.clear()
        self._commands.append(command)
        self._wake.send(b"!")
        assert self._done.wait(30)

    def _run(self) -> None:
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._woken:
                    if self._obey():
                        return
                elif key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj in self._selector.get_map():
                    self._pass_on(key.fileobj)  # type: ignore[arg-type]

    def _obey(self) -> bool:
        self._woken.recv(1)
        command = self._commands.pop(0)
        for end in self._others:
            if end in self._selector.get_map():
                self._selector.unregister(end)
        self._done.set()
        return command == "end"

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        server = socket.create_connection(self._server)
        for end, other in ((client, server), (server, client)):
            self._others[end] = other
            self._selector.register(end, selectors.EVENT_READ)

    def _pass_on(self, end: socket.socket) -> None:
        try:
            data = end.recv(1 << 16)
            self._others[end].sendall(data)
        except OSError:
            data = b""
        if data:
            return
        for closed in (end, self._others[end]):
            self._selector.unregister(closed)
            del self._others[closed]
            closed.close()
