"""The options of a step that has a timeout."""

from __future__ import annotations


def timeout_options(seconds: float | None) -> dict[str, int] | None:
    """Return the `options` of `Session.run` for a timeout in seconds; None for no timeout."""
    return None if seconds is None else {"timeout_in_ms": max(round(seconds * 1000), 1)}
