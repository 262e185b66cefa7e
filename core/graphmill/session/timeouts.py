"""The options of a step that has a timeout."""

from __future__ import annotations


def timeout_options(seconds: float | None) -> dict[str, int] | None:
    """Return the `options` of `Session.run` for a step that may take some seconds; None for any."""
    return None if seconds is None else {"timeout_in_ms": max(round(seconds * 1000), 1)}
