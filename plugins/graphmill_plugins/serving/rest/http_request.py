"""`HttpRequest` and `HttpResponse`: what handlers of the APIs over HTTP take and return."""

from __future__ import annotations

from typing import Final, NamedTuple

JSON: Final = b"application/json"
BINARY: Final = b"application/octet-stream"
JSON_LENGTH: Final = b"inference-header-content-length"
"""The header of the Open Inference Protocol for bodies with binary data after the JSON."""


class HttpRequest(NamedTuple):
    """A request whose body was received.

    Attributes:
        model: the name of the model in its path; "" for none.
        version: the version in its path.
        label: the label of a version in its path.
        verb: the method of the API, such as "predict".
        body: its body.
        json_length: how many bytes of the body are JSON, before binary data; None for all.
    """

    model: str
    version: int | None
    label: str | None
    verb: str
    body: bytes
    json_length: int | None = None


class HttpResponse(NamedTuple):
    """A response.

    Attributes:
        body: its body.
        content_type: the type of the body.
        status: the HTTP status.
        json_length: how many bytes of the body are JSON, before binary data; None for all.
    """

    body: bytes
    content_type: bytes = JSON
    status: int = 200
    json_length: int | None = None
