"""Convert errors to gRPC statuses and to codes in responses, and back.

The canonical codes of TensorFlow are gRPC's numbers. For one code it matters whether an error is a
status or part of the response: a client repeats a request, with the same request id, when the
*status* is UNAVAILABLE. So "not accepted, safe to repeat" is a status, and "the step failed because
a worker is down" is a code in the response, wherever the method has one (RunStep, RunGraph).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import grpc

from graphmill.errors import (
    ABORTED,
    CANCELLED,
    DEADLINE_EXCEEDED,
    UNAVAILABLE,
    UNKNOWN,
    OpError,
    error_class,
)

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Protocol

    class RpcFailure(Protocol):
        """The status of a failed call, for both of grpcio's interfaces."""

        def code(self) -> grpc.StatusCode | None:
            """Return the status code."""

        def details(self) -> str | None:
            """Return the message."""

        def trailing_metadata(self) -> Iterable[tuple[str, str | bytes]] | None:
            """Return the metadata of the status."""


MAX_MESSAGE_BYTES: Final = 3000
"""Maximum length in bytes: gRPC refuses metadata above 16 kB, and TensorFlow's clients stall."""

_DERIVED: Final = "[_Derived_]"
# A status of TensorFlow 2.21 marks it by a payload: {1: {1: type, 2: content}}, serialized.
_DETAILS_KEY: Final = "grpc-status-details-bin"
_DERIVED_TYPE: Final = b"type.googleapis.com/tensorflow.DerivedStatus"
_DERIVED_DETAILS: Final = b"\n%c\n%c%b\x12\x00" % (
    len(_DERIVED_TYPE) + 4,
    len(_DERIVED_TYPE),
    _DERIVED_TYPE,
)
# A status of ours states that it would mark derived errors.
_OURS: Final = ("graphmill-status", "1")
# What TensorFlow's worker adds to an error that it got from another task by a receive.
_BY_RECEIVE: Final = re.compile(
    r"\nAdditional GRPC error information from remote target \S+ while calling "
    r"/tensorflow\.WorkerService/RecvTensor:"
)
# `[[{{node NAME}}]]` at the end, where a TensorFlow client looks for the node at fault.
_NODE: Final = re.compile(r"\s*\[\[\{\{node (\S+?)\}\}\]\]\s*\Z")
_OF_RECEIVES: Final = frozenset((ABORTED, CANCELLED, DEADLINE_EXCEEDED, UNAVAILABLE))
_STATUS_CODES: Final[dict[int, grpc.StatusCode]] = {
    status.value[0]: status for status in grpc.StatusCode
}


def error_message(error: OpError) -> str:
    """Return the message of an error for the wire: bounded, and naming the node at its end."""
    location = [
        f"op {error.op_type}" if error.op_type else "",
        f"device {error.device}" if error.device else "",
    ]
    if error.plugin:
        location.append(f"plugin {error.plugin}")
    known = ", ".join(part for part in location if part)
    text = f"{error.message} ({known})" if known else error.message
    end = f"\n\t [[{{{{node {error.node}}}}}]]" if error.node else ""
    room = MAX_MESSAGE_BYTES - len(end.encode("utf-8", "replace"))
    return _cut(text, room) + end if room > 0 else _cut(text + end, MAX_MESSAGE_BYTES)


def worker_error_message(error: OpError) -> str:
    """Return the message for a master, which ignores derived errors."""
    text = error_message(error)
    return _cut(_DERIVED + text, MAX_MESSAGE_BYTES) if error.is_derived else text


def code_name(code: int) -> str:
    """Return gRPC's name of an error code, such as `NOT_FOUND`; `OK` for 0."""
    name: str = status_of_code(code).name
    return name


def status_of_code(code: int) -> grpc.StatusCode:
    """Return gRPC's status code of an error code."""
    return _STATUS_CODES.get(code, grpc.StatusCode.UNKNOWN)


def grpc_status(error: OpError) -> tuple[grpc.StatusCode, str]:
    """Return the status with which a handler ends a call."""
    return status_of_code(error.code), error_message(error)


def error_from_code(code: int, message: str) -> OpError:
    """Return the typed error for a code and a message of a response body."""
    text = message.removeprefix(_DERIVED)
    is_derived = text != message or _BY_RECEIVE.search(text) is not None
    node = _NODE.search(text)
    error = error_class(code)(
        text[: node.start()] if node else text, node=node.group(1) if node else None
    )
    error.is_derived = is_derived
    return error


def error_from_rpc(failure: RpcFailure, context: str) -> OpError:
    """Return the typed error for a call that failed.

    Args:
        failure: grpcio's exception, or the call.
        context: the method and the task, for the message.
    """
    status = failure.code()
    code = UNKNOWN if status is None else status.value[0]
    error = error_from_code(code, failure.details() or "the call failed")
    error.is_derived |= any(
        key == _DETAILS_KEY and isinstance(value, bytes) and _DERIVED_TYPE in value
        for key, value in failure.trailing_metadata() or ()
    )
    return in_context(error, context)


def error_from_receive(failure: RpcFailure, context: str) -> OpError:
    """Return the typed error for a receive that failed at its sender.

    TensorFlow's worker does not report whether the error is derived; it nearly always is, because a
    receive fails with its step. A restarted worker answers ABORTED as a root cause.
    """
    error = error_from_rpc(failure, context)
    is_ours = _OURS in (failure.trailing_metadata() or ())
    error.is_derived |= not is_ours and error.code not in _OF_RECEIVES
    return error


def metadata_of(error: OpError) -> tuple[tuple[str, str | bytes], ...]:
    """Return the metadata of the status of an error."""
    return metadata_of_status(is_derived=error.is_derived)


def metadata_of_status(*, is_derived: bool) -> tuple[tuple[str, str | bytes], ...]:
    """Return the metadata of a status that graphmill sends."""
    return (_OURS, (_DETAILS_KEY, _DERIVED_DETAILS)) if is_derived else (_OURS,)


def in_context(error: OpError, context: str) -> OpError:
    """Return an error whose message names the method and the task."""
    error.message = f"{error.message} ({context})"
    error.args = (error.message,)
    return error


def _cut(text: str, limit: int) -> str:
    """Return at most `limit` bytes of a text as valid UTF-8: its beginning and its end."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return data.decode("utf-8")
    note = f" ... ({len(data)} bytes in all) ... "
    room = max(limit - len(note), 0)
    end = min(room // 4, 500)
    head = data[: room - end].decode("utf-8", "ignore")
    return head + note + data[len(data) - end :].decode("utf-8", "ignore")
