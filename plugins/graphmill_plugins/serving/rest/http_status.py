"""The HTTP status of each status code, and the body of an error.

Semantics: `ToHTTPStatusCode` of tensorflow_serving/model_servers/http_server.cc.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from graphmill_plugins.serving.requests.error_text import bounded_text

if TYPE_CHECKING:
    from graphmill.errors import OpError

_STATUS: Final = {
    1: 499,  # CANCELLED
    3: 400,  # INVALID_ARGUMENT
    4: 504,  # DEADLINE_EXCEEDED
    5: 404,  # NOT_FOUND
    6: 409,  # ALREADY_EXISTS
    7: 403,  # PERMISSION_DENIED
    8: 429,  # RESOURCE_EXHAUSTED
    9: 400,  # FAILED_PRECONDITION
    10: 409,  # ABORTED
    11: 400,  # OUT_OF_RANGE
    12: 501,  # UNIMPLEMENTED
    14: 503,  # UNAVAILABLE
    16: 401,  # UNAUTHENTICATED
}


def http_status(error: OpError) -> int:
    """Return the HTTP status of an error; 500 for errors of the server itself."""
    return _STATUS.get(error.code, 500)


def error_body(message: str) -> bytes:
    """Return the body of an error."""
    text = json.dumps(bounded_text(message), ensure_ascii=False)
    return f'{{\n    "error": {text}\n}}'.encode("utf-8", "replace")
