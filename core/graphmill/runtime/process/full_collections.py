"""Avoid full garbage collections while a large graph is built or lowered, and in background jobs.

A full collection visits each object of the process, and starts whenever their number has grown by a
quarter. Lowering creates tens of objects for each node, all of which stay: a graph of 100,000 nodes
would be visited again and again, in a third of the time of its lowering. Young objects are
collected less often, too: JAX adds work of its own to each collection. Those that survive one
collection are not visited again, because nearly all of them stay.

Tracing and lowering a program creates hundreds of thousands of objects as well. A full collection
then holds the GIL for a tenth of a second, and the steps that run meanwhile wait for it.
"""

from __future__ import annotations

import gc
from typing import Final, TypeAlias

from graphmill.runtime.process.effects import FULL_COLLECTIONS
from graphmill.runtime.process.temporary_setting import TemporarySetting

_Thresholds: TypeAlias = tuple[int, int, int]

_NEVER: Final = 1 << 30
_YOUNG_THRESHOLD: Final = 50_000  # more objects than lowering a thousand nodes leaves


class NoFullCollections(TemporarySetting[_Thresholds]):
    """A context in which the garbage collector visits new objects only, if it is enabled.

    Python 3.14 has no third threshold; its second one bounds the part of the old objects that each
    collection visits.
    """

    def __init__(self) -> None:
        super().__init__(
            FULL_COLLECTIONS,
            gc.get_threshold,
            lambda thresholds: gc.set_threshold(*thresholds),
            lambda before: (before[0] and max(before[0], _YOUNG_THRESHOLD), _NEVER, _NEVER),
        )


NO_FULL_COLLECTIONS: Final = NoFullCollections()
"""The instance of this process, which has only one collector."""
