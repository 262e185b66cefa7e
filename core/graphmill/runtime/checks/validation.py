"""Whether validation mode is on: `GRAPHMILL_VALIDATE=1`."""

from __future__ import annotations

import os
from typing import Final

VALIDATE_VARIABLE: Final = "GRAPHMILL_VALIDATE"
"""Environment variable: 1 to check graphs around each pass, and executors after each node."""


def is_validation_on() -> bool:
    """Return whether the environment asks for checks; read when executors are made."""
    return os.environ.get(VALIDATE_VARIABLE, "") not in ("", "0")
