"""Device names: `/job:worker/replica:0/task:1/device:GPU:0`, full or partial.

Semantics: `tensorflow/core/util/device_name_utils.cc`; the legacy spellings (`/cpu:0`, `/gpu:*`)
are accepted too.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from graphmill.errors import InvalidArgumentError

_PART = re.compile(
    r"/(?:job:(?P<job>[A-Za-z][A-Za-z0-9_]*|\*)"
    r"|replica:(?P<replica>\d{1,9}|\*)"
    r"|task:(?P<task>\d{1,9}|\*)"
    r"|device:(?P<type>[A-Za-z][A-Za-z0-9_]*|\*)(?::(?P<id>\d{1,9}|\*))?"
    r"|(?P<old_type>[Cc][Pp][Uu]|[Gg][Pp][Uu]|[Tt][Pp][Uu])(?::(?P<old_id>\d{1,9}|\*))?)(?=/|$)"
)
_DEVICE: Final = "/device:"
_LEGACY_TYPES = {"cpu": "CPU", "gpu": "GPU", "tpu": "TPU"}


class DeviceName(NamedTuple):
    """A device name; a part that is None is unspecified."""

    job: str | None = None
    replica: int | None = None
    task: int | None = None
    type: str | None = None
    id: int | None = None

    @property
    def is_complete(self) -> bool:
        """Whether every part is specified, so that the name denotes one device."""
        return None not in (self.job, self.replica, self.task, self.type, self.id)

    def matches(self, full: DeviceName) -> bool:
        """Return whether `full` agrees with every specified part."""
        return (
            self.job in (None, full.job)
            and self.replica in (None, full.replica)
            and self.task in (None, full.task)
            and self.type in (None, full.type)
            and self.id in (None, full.id)
        )

    def merged_over(self, base: DeviceName) -> DeviceName:
        """Return this name with its unspecified parts taken from `base`."""
        merged = self._replace(
            job=base.job if self.job is None else self.job,
            replica=base.replica if self.replica is None else self.replica,
            task=base.task if self.task is None else self.task,
        )
        if self.type is None:
            return merged._replace(type=base.type, id=base.id if self.id is None else self.id)
        if self.id is None and self.type == base.type:
            return merged._replace(id=base.id)
        return merged

    def __str__(self) -> str:
        parts = []
        if self.job is not None:
            parts.append(f"/job:{self.job}")
        if self.replica is not None:
            parts.append(f"/replica:{self.replica}")
        if self.task is not None:
            parts.append(f"/task:{self.task}")
        if self.type is not None or self.id is not None:
            parts.append(f"/device:{self.type or '*'}:{'*' if self.id is None else self.id}")
        return "".join(parts)


def parse_device_name(name: str) -> DeviceName:
    """Parse a full or partial device name; the empty string specifies no part.

    Raises:
        InvalidArgumentError: `name` is not a device name.
    """
    parts: dict[str, str] = {}
    position = 0
    text = name if name.startswith("/") or not name else "/" + name
    while position < len(text):
        match = _PART.match(text, position)
        if match is None:
            raise InvalidArgumentError(
                f"Malformed device specification {name!r}; expected parts of "
                "'/job:<name>/replica:<n>/task:<n>/device:<type>:<n>'"
            )
        for key, value in match.groupdict().items():
            if value is not None:
                parts[key.removeprefix("old_")] = value
        position = match.end()
    return DeviceName(
        job=_text(parts.get("job")),
        replica=_number(parts.get("replica")),
        task=_number(parts.get("task")),
        type=_device_type(parts.get("type")),
        id=_number(parts.get("id")),
    )


_OPEN: Final = DeviceName()


def canonical_device_name(name: str, base: DeviceName = _OPEN) -> str:
    """Return the canonical spelling of `name`, with unspecified parts taken from `base`."""
    return str(parse_device_name(name).merged_over(base))


def task_of(device: str) -> str:
    """Return the name of the task of a full device name, such as `/job:worker/replica:0/task:1`."""
    return device.partition(_DEVICE)[0]


def local_name(device: str) -> str:
    """Return a full device name without its task, such as `GPU:0`."""
    return device.rpartition(_DEVICE)[2]


def _text(value: str | None) -> str | None:
    return None if value in (None, "*") else value


def _number(value: str | None) -> int | None:
    return None if value in (None, "*") else int(value or 0)


def _device_type(value: str | None) -> str | None:
    if value in (None, "*"):
        return None
    return _LEGACY_TYPES.get((value or "").lower(), value)
