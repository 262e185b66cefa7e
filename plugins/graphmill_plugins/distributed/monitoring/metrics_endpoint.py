"""`MetricsEndpoint`: an HTTP port for Prometheus."""

from __future__ import annotations

import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import InvalidArgumentError, UnavailableError
from graphmill.spi import plugin_settings
from graphmill_plugins._server.prometheus import CONTENT_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi.protos import proto

PATH: Final = "/metrics"
SETTING: Final = "metrics_port"
_SECONDS: Final = 10.0
"""Seconds that a client may take to send its request."""


def metrics_port(config: proto.ConfigProto) -> int | None:
    """Return the port for metrics that a config requests; None for none.

    Raises:
        InvalidArgumentError: it is not a port.
    """
    port = plugin_settings(config, "distributed").get(SETTING)
    if port is None:
        return None
    if not isinstance(port, (int, float)) or port != int(port) or not 0 <= port <= 65535:
        raise InvalidArgumentError(
            f"{SETTING} of plugin distributed is {port!r}; expected a port, or 0 for a free one"
        )
    return int(port)


class MetricsEndpoint:
    """Serves GET /metrics in a thread.

    Args:
        host: the address to listen on.
        port: the port; 0 for a free one.
        text: returns the current metrics.

    Raises:
        UnavailableError: the port is in use, or the host is not an address of this machine.
    """

    def __init__(self, host: str, port: int, text: Callable[[], str]) -> None:
        try:
            self._server = _Server((host, port), _handler(text))
        except OSError as error:
            raise UnavailableError(
                f"cannot serve metrics on {host}:{port}: {error.strerror or error}"
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="graphmill-metrics", daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> str:
        """The address, such as `127.0.0.1:9090`."""
        host, port = self._server.server_address[:2]
        return f"{host!s}:{port}"

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect or send invalid requests."""
        del request, client_address


def _handler(text: Callable[[], str]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _SECONDS

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != PATH:
                self.send_error(HTTPStatus.NOT_FOUND, f"only {PATH} is served")
                return
            body = text().encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
            """Do not log scrapes."""
            del format, args

    return Handler
