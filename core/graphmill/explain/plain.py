"""Convert records to plain values for JSON."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, Final

from graphmill.runtime.state_machine import Story

INLINE: Final = "inline"
"""Key of field metadata: if true, the field's own fields appear as fields of the record."""


def as_plain(value: Any) -> Any:
    """Return data classes and named tuples as dicts, other sequences as lists, ready for JSON."""
    if hasattr(value, "_asdict"):
        return {name: as_plain(item) for name, item in value._asdict().items()}
    if is_dataclass(value):
        return _fields(value)
    if isinstance(value, Story):
        return as_plain(value.transitions())
    if isinstance(value, dict):
        return {key: as_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_plain(item) for item in value]
    return value


def _fields(record: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for part in fields(record):
        value = as_plain(getattr(record, part.name))
        plain |= value if part.metadata.get(INLINE) else {part.name: value}
    return plain
