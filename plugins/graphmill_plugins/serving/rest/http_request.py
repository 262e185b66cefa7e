"""`HttpRequest` and `HttpResponse`: what handlers of the APIs over HTTP take and return."""

from __future__ import annotations

from typing import Final, NamedTuple

JSON: Final = b"application/json"


class HttpRequest(NamedTuple):
    """A request whose body was received.

    Attributes:
        model: the name of the model in its path; "" for none.
        version: the version in its path.
        label: the label of a version in its path.
        verb: what is asked for, as "predict".
        body: its body.
    """

    model: str
    version: int | None
    label: str | None
    verb: str
    body: bytes


class HttpResponse(NamedTuple):
    """A response.

    Attributes:
        body: its body.
        content_type: the type of the body.
        status: the HTTP status.
    """

    body: bytes
    content_type: bytes = JSON
    status: int = 200
