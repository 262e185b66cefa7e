"""Attrs of the ops that transfer tensors between partitions."""

from __future__ import annotations

from typing import Final

NEVER_DEAD_ATTR: Final = "_never_dead"
"""Attr of a receive: the whole graph has no control flow, so no dead tensor ever arrives.

It is valid only in the process that partitioned the graph, and is not sent to other tasks."""


def signed_incarnation(incarnation: int) -> int:
    """Return an incarnation as a signed 64-bit integer, the type of attrs and message fields."""
    return incarnation - (1 << 64) if incarnation >> 63 else incarnation
