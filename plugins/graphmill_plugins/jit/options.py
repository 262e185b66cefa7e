"""Options that XLA is given for a program."""

from __future__ import annotations

from typing import Any


def compiler_options(jaxpr: Any) -> dict[str, Any] | None:
    """Return the options to compile a program with; None for XLA's own."""
    del jaxpr
    return None
