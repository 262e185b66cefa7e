"""Encode errors of the process of an isolated model as JSON with texts of bounded length."""

from __future__ import annotations

import json
from typing import Any, Final

from graphmill.errors import (
    DataLossError,
    InternalError,
    OpError,
    ResourceExhaustedError,
    error_class,
)
from graphmill.isolation.packets import ERROR, Packet

_MAX_TEXT: Final = 20_000
_LOCATION: Final = ("node", "op_type", "device", "plugin")


def encode_error(error: BaseException) -> Packet:
    """Return the packet for an error; if it is not an `OpError`, for an `InternalError`."""
    typed = _typed(error)
    texts = {name: getattr(typed, name) for name in _LOCATION}
    data = {
        "code": typed.code,
        "message": typed.message[:_MAX_TEXT],
        "notes": [str(note)[:_MAX_TEXT] for note in getattr(typed, "__notes__", ())][:10],
        **{name: str(text)[:_MAX_TEXT] if text else None for name, text in texts.items()},
    }
    return Packet(ERROR, json.dumps(data).encode())


def decode_error(packet: Packet) -> OpError:
    """Return the error of a packet.

    Raises:
        DataLossError: the packet is malformed.
    """
    if packet.kind != ERROR:
        raise DataLossError(f"a reply of kind {packet.kind} was not expected")
    try:
        data = json.loads(packet.payload)
    except (ValueError, RecursionError) as error:
        raise DataLossError(f"an error is not JSON: {error!s:.200}") from None
    if not isinstance(data, dict) or not isinstance(data.get("code"), int):
        raise DataLossError("an error has no code")
    message = data.get("message")
    location = {name: _text(data.get(name)) for name in _LOCATION}
    failure = error_class(data["code"])(_text(message) or "no message", **location)
    notes = data.get("notes")
    for note in notes[:10] if isinstance(notes, list) else ():
        failure.add_note(_text(note) or "")
    return failure


def _text(value: Any) -> str | None:
    return value[:_MAX_TEXT] if isinstance(value, str) and value else None


def _typed(error: BaseException) -> OpError:
    if isinstance(error, OpError):
        return error
    if isinstance(error, MemoryError):
        return ResourceExhaustedError(
            f"the process of the isolated model ran out of memory: {error}; raise "
            "IsolationLimits.memory_bytes"
        )
    return InternalError(f"{type(error).__name__}: {error}")
