"""`DEAD`: the value of outputs on a branch that was not taken."""

from __future__ import annotations

import enum
from typing import Final


class _Dead(enum.Enum):
    """The type of `DEAD`."""

    DEAD = enum.auto()

    def __repr__(self) -> str:
        return "DEAD"


DEAD: Final = _Dead.DEAD
"""The value that a kernel such as `Switch` returns for an output that carries no value."""
