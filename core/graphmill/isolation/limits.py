"""`IsolationLimits`: the resource limits and required protections of an isolated model."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Final, Self

from graphmill.errors import InvalidArgumentError, suggest

if TYPE_CHECKING:
    from collections.abc import Iterable

LANDLOCK: Final = "landlock"
SECCOMP: Final = "seccomp"
PROTECTIONS: Final = (LANDLOCK, SECCOMP)
"""Protections that can be left out of `IsolationLimits.require`. Resource limits always apply."""

_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class IsolationLimits:
    """The limits of an isolated model; an immutable value.

    Attributes:
        memory_bytes: private memory of its process, with the interpreter and its libraries.
        cpu_seconds: processor time of all threads together, for loading and for each step.
        step_seconds: time for loading and for each step without a timeout of its own; a process
            that does not answer by then is ended.
        transfer_bytes: the values of one step's feeds, and those of its results.
        file_bytes: the size of a file that it writes, where a rule lets it write.
        open_files: files that are open at once.
        threads: threads that are started. The system counts those of the user's other processes,
            too, and does not apply this limit to root.
        require: the protections without which nothing is run: "landlock" (files) and "seccomp"
            (system calls). One that is left out is not applied.

    Raises:
        InvalidArgumentError: a limit is not positive, or a protection is unknown.
    """

    memory_bytes: int = 4096 * _MIB
    cpu_seconds: float = 600.0
    step_seconds: float = 600.0
    transfer_bytes: int = 1024 * _MIB
    file_bytes: int = 1024 * _MIB
    open_files: int = 256
    threads: int = 256
    require: tuple[str, ...] = PROTECTIONS

    def __post_init__(self) -> None:
        for field in fields(self):
            if field.name != "require":
                _check_positive(field.name, getattr(self, field.name), str(field.type))
        if isinstance(self.require, str):
            raise InvalidArgumentError(
                f"require is the string {self.require!r}, expected a tuple: ({self.require!r},)"
            )
        for name in self.require:
            if name not in PROTECTIONS:
                raise InvalidArgumentError(
                    f"require has the unknown protection {name!r}{suggest(name, PROTECTIONS)}; "
                    f"protections are {' and '.join(PROTECTIONS)}"
                )

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Self:
        """Return the limits for texts such as "memory_bytes=2000000000" and "require=seccomp".

        Raises:
            InvalidArgumentError: a text is malformed, or names an unknown limit.
        """
        kinds = {field.name: str(field.type) for field in fields(cls)}
        values: dict[str, Any] = {}
        for text in texts:
            name, _, value = text.partition("=")
            if name not in kinds:
                raise InvalidArgumentError(
                    f"{text!r} names the unknown limit {name!r}{suggest(name, kinds)}; write "
                    f"NAME=VALUE with one of {', '.join(kinds)}"
                )
            values[name] = _parse_value(name, value, kinds[name])
        return cls(**values)

    def as_data(self) -> dict[str, Any]:
        """Return the limits as JSON data."""
        return asdict(self)


def _check_positive(name: str, value: Any, kind: str) -> None:
    accepted = (int, float) if kind == "float" else (int,)
    if isinstance(value, bool) or not isinstance(value, accepted) or not 0 < value < math.inf:
        raise _not_positive(name, value, kind)


def _parse_value(name: str, text: str, kind: str) -> Any:
    if name == "require":
        return tuple(filter(None, text.split(",")))
    try:
        return float(text) if kind == "float" else int(text)
    except ValueError:
        raise _not_positive(name, text, kind) from None


def _not_positive(name: str, value: Any, kind: str) -> InvalidArgumentError:
    noun = "number" if kind == "float" else "integer"
    return InvalidArgumentError(f"the limit {name} is {value!r}, expected a positive {noun}")
