"""`Application`: the ASGI application with all APIs over HTTP."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

from graphmill.errors import InternalError, OpError
from graphmill_plugins._server.event_log import log_event
from graphmill_plugins._server.prometheus import CONTENT_TYPE, exposition
from graphmill_plugins.serving.rest import inference_api, serving_api
from graphmill_plugins.serving.rest.content_encoding import decompress_gzip
from graphmill_plugins.serving.rest.http_request import (
    JSON_LENGTH,
    HttpRequest,
    HttpResponse,
    RequestHead,
)
from graphmill_plugins.serving.rest.http_status import error_body, http_status

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from graphmill_plugins.serving.requests.server_core import ServerCore

    Handler = Callable[[ServerCore, HttpRequest], Awaitable[HttpResponse]]
    Receive = Callable[[], Awaitable[dict[str, Any]]]
    Send = Callable[[dict[str, Any]], Awaitable[None]]

ACCESS_LOG: Final = logging.getLogger("graphmill.serving.access")
_log = logging.getLogger("graphmill.serving")

_MODEL: Final = r"/v1/models/([^/:]+)(?:/versions/(\d+)|/labels/([^/:]+))?"
_V2_MODEL: Final = r"/v2/models/([^/]+)(?:/versions/([^/]+))?"
_ANY_CASE: Final = re.IGNORECASE
_MAX_ROUTES: Final = 1024
_CLOSE: Final = ((b"connection", b"close"),)
"""The header of an answer to a request whose body is not read to its end."""
_MAX_DIGITS: Final = 18
_NOT_ENCODED: Final = (b"", b"identity")
_SMALL_GZIP: Final = 4096
"""Compressed bodies of at most this size are decompressed at once; larger ones in a thread."""


class _Route(NamedTuple):
    """The handler and arguments that a method and path select.

    Attributes:
        api: the name of the API, for metrics.
        handler: answers the request; None if no API has this method and path.
        model, version, label: see `HttpRequest`.
        error: answered instead, if the path is malformed.
    """

    api: str
    handler: Handler | None
    model: str = ""
    version: int | None = None
    label: str | None = None
    error: tuple[int, str] | None = None


class RequestPlan(NamedTuple):
    """What the head of a request says about its answer; made once for equal heads.

    Attributes:
        head: the head.
        route: the handler and arguments of its method and path.
        length: the declared number of bytes of the body; 0 if it declares none.
        encoding: how the body is compressed, in lower case; b"" for not at all.
        json_length: the header with the number of bytes of JSON before binary data; b"" for none.
    """

    head: RequestHead
    route: _Route
    length: int
    encoding: bytes
    json_length: bytes


async def _metrics(core: ServerCore, request: HttpRequest) -> HttpResponse:
    """Return the metrics in Prometheus' text format."""
    del request
    text = exposition(core.metrics.collect(core.manager))
    return HttpResponse(text.encode(), CONTENT_TYPE.encode())


_ROUTES: Final[tuple[tuple[str, re.Pattern[str], str, Handler], ...]] = (
    ("POST", re.compile(f"{_MODEL}:predict", _ANY_CASE), "rest/predict", serving_api.predict),
    ("POST", re.compile(f"{_MODEL}:classify", _ANY_CASE), "rest/classify", serving_api.classify),
    ("POST", re.compile(f"{_MODEL}:regress", _ANY_CASE), "rest/regress", serving_api.regress),
    ("GET", re.compile(f"{_MODEL}/metadata", _ANY_CASE), "rest/metadata", serving_api.metadata),
    ("GET", re.compile(_MODEL, _ANY_CASE), "rest/status", serving_api.status),
    ("GET", re.compile("/v1/models(?:/metadata)?", _ANY_CASE), "rest/status", serving_api.status),
    ("POST", re.compile(f"{_V2_MODEL}/infer"), "v2/infer", inference_api.infer),
    ("GET", re.compile(f"{_V2_MODEL}/ready"), "v2/ready", inference_api.model_ready),
    ("GET", re.compile(f"{_V2_MODEL}/config"), "v2/config", inference_api.model_config),
    ("GET", re.compile(_V2_MODEL), "v2/metadata", inference_api.model_metadata),
    ("GET", re.compile("/v2/?"), "v2/server", inference_api.server_metadata),
    ("GET", re.compile("/v2/health/live"), "v2/health", inference_api.live),
    ("GET", re.compile("/v2/health/ready"), "v2/health", inference_api.ready),
    ("GET", re.compile("(?:/monitoring/prometheus)?/metrics"), "metrics", _metrics),
)


class _Disconnected(Exception):  # noqa: N818 - not an error of the server
    """The client closed the connection before it had sent its whole request."""


class _Refused(Exception):  # noqa: N818 - an answer
    """A request is refused before its body is read.

    Args:
        status: the HTTP status.
        message: the error.
        reason: for metrics.
    """

    def __init__(self, status: int, message: str, reason: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class Application:
    """The application.

    Args:
        core: the state of the server.
    """

    def __init__(self, core: ServerCore) -> None:
        self._core = core
        self._routes: dict[tuple[str, str], _Route] = {}
        self._decompressing = asyncio.Lock()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request; ASGI's interface."""
        client = scope["client"][0] if scope.get("client") else ""
        head = RequestHead(scope["method"], scope["raw_path"], scope["headers"])
        response = await self.respond(self.plan(head), client, receive)
        if response is not None:
            await _send(send, response)

    def plan(self, head: RequestHead) -> RequestPlan:
        """Return how requests with a head are answered.

        Args:
            head: the head, whose Content-Length is a number.
        """
        method, path = head.method, head.path.decode("latin-1")
        route = self._routes.get((method, path)) or self._new_route(method, path)
        headers = dict(reversed(head.headers))  # the first of each name
        return RequestPlan(
            head,
            route,
            int(headers.get(b"content-length") or 0),
            headers.get(b"content-encoding", b"").lower(),
            headers.get(JSON_LENGTH, b""),
        )

    async def respond(
        self, plan: RequestPlan, client: str, body: bytes | Receive
    ) -> HttpResponse | None:
        """Return the response to a request; None if the client has gone.

        Args:
            plan: that of the request's head.
            client: the address that it comes from; "" if that is unknown.
            body: its whole body, or a function that returns ASGI's messages with the body.
        """
        metrics = self._core.metrics
        started = time.perf_counter()
        route = plan.route
        metrics.in_flight += 1
        received = reserved = 0
        try:
            if isinstance(body, bytes):
                content, received = body, self._reserve_whole(plan.length, body)
            else:
                content, received = await self._read_body(plan.length, body)
            reserved = received
            if plan.encoding not in _NOT_ENCODED:
                content = await self._decoded(content, plan.encoding)
                metrics.pending_bytes += len(content)
                reserved += len(content)
            request = HttpRequest(
                route.model, route.version, route.label, content, _json_length(plan.json_length)
            )
            response = await self._answer(route, request)
        except _Disconnected:
            metrics.count("", route.api, "499", time.perf_counter() - started)
            return None
        except _Refused as refusal:
            metrics.count_refused(refusal.reason)
            extra = (*_CLOSE, (b"retry-after", b"1")) if refusal.status == 429 else _CLOSE
            response = _error(refusal.status, str(refusal))._replace(headers=extra)
        finally:
            metrics.in_flight -= 1
            metrics.pending_bytes -= reserved
        self._record(plan, client, received, response, time.perf_counter() - started)
        return response

    def _record(
        self,
        plan: RequestPlan,
        client: str,
        received: int,
        response: HttpResponse,
        seconds: float,
    ) -> None:
        """Count an answered request, and write it to the access log."""
        head, route = plan.head, plan.route
        model = route.model if self._core.manager.is_known(route.model) else ""
        self._core.metrics.count(model, route.api, str(response.status), seconds)
        if ACCESS_LOG.isEnabledFor(logging.INFO):
            log_event(
                ACCESS_LOG, logging.INFO, "request", api=route.api, method=head.method,
                path=head.path.decode("latin-1"), model=route.model, status=response.status,
                milliseconds=round(seconds * 1000, 3), bytes_received=received,
                bytes_sent=len(response.body), client=client,
            )  # fmt: skip

    async def _answer(self, route: _Route, request: HttpRequest) -> HttpResponse:
        if route.error is not None:
            return _error(*route.error)
        assert route.handler is not None
        try:
            return await route.handler(self._core, request)
        except OpError as error:
            if isinstance(error, InternalError) and error.__cause__ is not None:
                _log.error("request failed", exc_info=error)
            return _error(http_status(error), _message(error))
        except Exception as error:  # noqa: BLE001 - logged, and answered
            _log.exception("request failed")
            return _error(500, f"the server failed: {type(error).__name__}")

    def _reserve_whole(self, declared: int, body: bytes) -> int:
        """Reserve the pending bytes of a body that has arrived whole; return their number."""
        self._check_size(max(declared, len(body)))
        self._core.metrics.pending_bytes += len(body)
        return len(body)

    async def _read_body(self, declared: int, receive: Receive) -> tuple[bytes, int]:
        """Return the body of a request, and the number of pending bytes that it has reserved."""
        metrics = self._core.metrics
        self._check_size(declared)
        message = await receive()
        body = message.get("body", b"")
        if message["type"] == "http.disconnect":
            raise _Disconnected
        if not message["more_body"]:
            return body, self._reserve_whole(declared, body)
        reserved = 0
        parts = [body]
        received = len(body)
        try:
            while True:
                self._check_size(received)
                needed = max(declared, received)
                self._check_pending(metrics.pending_bytes, needed - reserved)
                metrics.pending_bytes += needed - reserved
                reserved = needed
                if not message["more_body"]:
                    return b"".join(parts), reserved
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise _Disconnected
                parts.append(message["body"])
                received += len(message["body"])
        except BaseException:
            metrics.pending_bytes -= reserved
            raise

    async def _decoded(self, body: bytes, encoding: bytes) -> bytes:
        """Return the content of a compressed body; as TensorFlow Serving, only gzip is accepted."""
        if encoding != b"gzip":
            shown = encoding.decode("latin-1")
            raise _Refused(
                415, f"the content encoding {shown!r} is not gzip; leave it out", "encoding"
            )
        limit = self._core.options.max_request_bytes
        try:
            if len(body) <= _SMALL_GZIP:
                content = decompress_gzip(body, limit)
            else:
                # One at a time: contents count as pending bytes only once they are known.
                async with self._decompressing:
                    content = await asyncio.to_thread(decompress_gzip, body, limit)
        except ValueError as error:
            raise _Refused(400, str(error), "encoding") from error
        self._check_size(len(content))
        self._check_pending(self._core.metrics.pending_bytes, len(content))
        return content

    def _check_size(self, size: int) -> None:
        limit = self._core.options.max_request_bytes
        if size > limit:
            raise _Refused(
                413, f"the request has {size} bytes or more; the limit is {limit}", "request_bytes"
            )

    def _check_pending(self, pending: int, more: int) -> None:
        limit = self._core.options.max_pending_bytes
        if pending + more > limit:
            raise _Refused(
                429,
                f"the bodies of requests in progress have {pending} bytes; "
                f"the limit is {limit}. Try again later",
                "pending_bytes",
            )

    def _new_route(self, method: str, path: str) -> _Route:
        """Find a route, and keep it for later requests unless the path is malformed."""
        route = _find_route(method, path)
        if route.error is None:
            if len(self._routes) >= _MAX_ROUTES:
                self._routes.clear()
            self._routes[method, path] = route
        return route


def _find_route(method: str, path: str) -> _Route:
    matches = [(r, found) for r in _ROUTES if (found := r[1].fullmatch(path)) is not None]
    for (expected, _, api, handler), found in matches:
        if method == expected:
            groups = (*found.groups(), None, None, None)
            version, label = groups[1], groups[2]
            if version is not None and (
                not version.isascii() or not version.isdigit() or len(version) > _MAX_DIGITS
            ):
                message = f"Failed to convert version: {version} to numeric."
                return _Route(api, None, error=(400, message))
            return _Route(
                api,
                handler,
                unquote(groups[0] or ""),
                None if version is None else int(version),
                None if label is None else unquote(label),
            )
    if matches:
        allowed = ", ".join(sorted({route[0] for route, _ in matches}))
        return _Route("", None, error=(405, f"{path} takes {allowed}, not {method}"))
    if path.startswith("/v1/"):
        return _Route("", None, error=(400, f"Malformed request: {method} {path}"))
    return _Route("", None, error=(404, f"there is nothing at {path[:200]}"))


def _json_length(text: bytes) -> int | None:
    """Return the number of bytes of JSON in a body, if binary data follows."""
    if not text:
        return None
    if not text.isdigit() or len(text) > _MAX_DIGITS:
        raise _Refused(400, f"{JSON_LENGTH.decode()} is not a number of bytes", "json_length")
    return int(text)


def _message(error: OpError) -> str:
    where = f" (node {error.node})" if error.node else ""
    return f"{error.message}{where}"


def _error(status: int, message: str) -> HttpResponse:
    return HttpResponse(error_body(message), status=status)


async def _send(send: Send, response: HttpResponse) -> None:
    await send(
        {
            "type": "http.response.start",
            "status": response.status,
            "headers": response.all_headers(),
        }
    )
    await send({"type": "http.response.body", "body": response.body})
