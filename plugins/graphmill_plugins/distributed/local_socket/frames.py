"""Encode and read the frames of calls over a local socket.

A frame is a header (length of its content, kind, number of the call) and its content:

| kind | content |
|---|---|
| `REQUEST` | length of the method's path (1 byte), the path, the serialized request |
| `RESPONSE` | the serialized response |
| `FAILURE` | code (1 byte), whether it is derived (1 byte), the message |
| `CANCEL` | nothing |

The client numbers its calls. Both ends are graphmill of the same user; a malformed frame ends the
connection.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from graphmill.errors import InvalidArgumentError
from graphmill_plugins._server.status import metadata_of_status, status_of_code

if TYPE_CHECKING:
    import grpc

REQUEST: Final = 1
RESPONSE: Final = 2
FAILURE: Final = 3
CANCEL: Final = 4

MAX_CONTENT: Final = (1 << 31) - 1
"""The maximum length of a frame's content in bytes; protobuf's limit for a message."""

_HEADER: Final = struct.Struct("<IBQ")
_STATUS: Final = struct.Struct("<BB")


class Frame(NamedTuple):
    """One frame."""

    kind: int
    call_id: int
    content: bytes


class CallFailure(NamedTuple):
    """The status of a failed call; it has the methods of grpcio's `RpcError`.

    Attributes:
        number: the canonical code.
        text: the message.
        is_derived: whether another error is the root cause.
    """

    number: int
    text: str
    is_derived: bool = False

    def code(self) -> grpc.StatusCode:
        """Return the status code."""
        return status_of_code(self.number)

    def details(self) -> str:
        """Return the message."""
        return self.text

    def trailing_metadata(self) -> tuple[tuple[str, str | bytes], ...]:
        """Return the metadata that graphmill's gRPC server sends with this status."""
        return metadata_of_status(is_derived=self.is_derived)


def frame(kind: int, call_id: int, content: bytes = b"") -> bytes:
    """Return an encoded frame."""
    return _HEADER.pack(len(content), kind, call_id) + content


def request(call_id: int, path: bytes, data: bytes) -> bytes:
    """Return the encoded frame of a request."""
    head = _HEADER.pack(1 + len(path) + len(data), REQUEST, call_id)
    return b"%b%c%b%b" % (head, len(path), path, data)


def read_request(content: bytes) -> tuple[bytes, bytes]:
    """Return path and data of a request."""
    start = 1 + content[0] if content else 1
    return content[1:start], content[start:]


def failure(call_id: int, status: CallFailure) -> bytes:
    """Return the encoded frame of a failed call."""
    content = _STATUS.pack(status.number, status.is_derived) + status.text.encode(
        "utf-8", "replace"
    )
    return frame(FAILURE, call_id, content)


def read_failure(content: bytes) -> CallFailure:
    """Return the status of a failed call.

    Raises:
        InvalidArgumentError: the content is malformed.
    """
    if len(content) < _STATUS.size:
        raise InvalidArgumentError(f"a status of {len(content)} bytes; expected at least 2")
    code, is_derived = _STATUS.unpack_from(content)
    return CallFailure(code, content[_STATUS.size :].decode("utf-8", "replace"), bool(is_derived))


class FrameReader:
    """Splits a stream of bytes into frames."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that end in the data.

        Raises:
            InvalidArgumentError: a header is malformed.
        """
        if not self._rest and len(data) >= _HEADER.size:
            length, kind, call_id = _HEADER.unpack_from(data)
            if length == len(data) - _HEADER.size:  # nearly always: one whole frame
                _check(kind, length)
                return [Frame(kind, call_id, data[_HEADER.size :])]
        self._rest += data
        return self._whole_frames()

    def _whole_frames(self) -> list[Frame]:
        frames, start, rest = [], 0, self._rest
        while len(rest) - start >= _HEADER.size:
            length, kind, call_id = _HEADER.unpack_from(rest, start)
            _check(kind, length)
            end = start + _HEADER.size + length
            if end > len(rest):
                break
            frames.append(Frame(kind, call_id, bytes(rest[start + _HEADER.size : end])))
            start = end
        del rest[:start]
        return frames


def _check(kind: int, length: int) -> None:
    if not REQUEST <= kind <= CANCEL or length > MAX_CONTENT:
        raise InvalidArgumentError(f"a frame of kind {kind} with {length} bytes is malformed")
