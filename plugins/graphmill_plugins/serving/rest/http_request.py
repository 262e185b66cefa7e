"""`RequestHead`, `HttpRequest` and `HttpResponse`: the requests and responses of the HTTP APIs."""

from __future__ import annotations

from typing import Final, NamedTuple

JSON: Final = b"application/json"
BINARY: Final = b"application/octet-stream"
JSON_LENGTH: Final = b"inference-header-content-length"
"""The header of the Open Inference Protocol for bodies with binary data after the JSON."""


class RequestHead(NamedTuple):
    """A request before its body.

    Attributes:
        method: as "POST".
        path: its path, still quoted, without the query.
        headers: names in lower case, and values.
    """

    method: str
    path: bytes
    headers: list[tuple[bytes, bytes]]


class HttpRequest(NamedTuple):
    """A request whose body was received.

    Attributes:
        model: the name of the model in its path; "" for none.
        version: the version in its path.
        label: the label of a version in its path.
        body: its body.
        json_length: how many bytes of the body are JSON, before binary data; None for all.
    """

    model: str
    version: int | None
    label: str | None
    body: bytes
    json_length: int | None = None


class HttpResponse(NamedTuple):
    """A response.

    Attributes:
        body: its body.
        content_type: the type of the body.
        status: the HTTP status.
        json_length: how many bytes of the body are JSON, before binary data; None for all.
        headers: more headers.
    """

    body: bytes
    content_type: bytes = JSON
    status: int = 200
    json_length: int | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()

    def all_headers(self) -> list[tuple[bytes, bytes]]:
        """Return all headers, those that describe the body first."""
        length = self.json_length
        lengths = () if length is None else ((JSON_LENGTH, b"%d" % length),)
        return [
            (b"content-type", self.content_type),
            (b"content-length", b"%d" % len(self.body)),
            *lengths,
            *self.headers,
        ]

    def header_lines(self) -> bytes:
        """Return all headers as lines."""
        if self.json_length is None and not self.headers:
            return b"content-type: %b\r\ncontent-length: %d\r\n" % (
                self.content_type,
                len(self.body),
            )
        return b"".join([b"%b: %b\r\n" % header for header in self.all_headers()])
