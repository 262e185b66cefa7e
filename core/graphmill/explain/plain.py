"""`Record`: the base of explanation records, and their conversion to plain values for JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

from graphmill.runtime.state_machine import TransitionHistory


class Record:
    """A record whose fields are its slots, in the order in which they are shown.

    The first compilation of a process imports such classes; creating a data class takes a hundred
    times longer.

    Attributes:
        inlined: the fields whose own fields appear as fields of the record in plain values.
    """

    __slots__: tuple[str, ...] = ()
    inlined: ClassVar[frozenset[str]] = frozenset()

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
        return f"{type(self).__name__}({values})"


def as_plain(value: Any) -> Any:
    """Return records, data classes and named tuples as dicts, other sequences as lists."""
    if hasattr(value, "_asdict"):
        return {name: as_plain(item) for name, item in value._asdict().items()}
    if isinstance(value, Record):
        return _fields(value)
    if is_dataclass(value):
        return {part.name: as_plain(getattr(value, part.name)) for part in fields(value)}
    if isinstance(value, TransitionHistory):
        return as_plain(value.transitions())
    if isinstance(value, Mapping):
        return {key: as_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_plain(item) for item in value]
    return value


def with_old_keys(plain: dict[str, Any]) -> dict[str, Any]:
    """Add `story`, the old key of `history`, to plain values; the next version removes it."""
    if "history" in plain:
        plain["story"] = plain["history"]
    for cluster in (*plain.get("clusters", ()), *plain.get("loops", ())):
        with_old_keys(cluster)
    for compilation in plain.get("compilations", {}).values():
        with_old_keys(compilation)
    return plain


def _fields(record: Record) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for name in record.__slots__:
        value = as_plain(getattr(record, name))
        plain |= value if name in record.inlined else {name: value}
    return plain
