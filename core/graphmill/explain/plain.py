"""Records as plain values."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any


def as_plain(value: Any) -> Any:
    """Return data classes and named tuples as dicts, other sequences as lists, ready for JSON."""
    if hasattr(value, "_asdict"):
        return {name: as_plain(item) for name, item in value._asdict().items()}
    if is_dataclass(value):
        return {part.name: as_plain(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, dict):
        return {key: as_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_plain(item) for item in value]
    return value
