"""Names of the ops that carry tensors between partitions."""

from __future__ import annotations

from typing import Final

NEVER_DEAD_ATTR: Final = "_never_dead"
"""On a receive: there is no control flow in the whole graph, so that nothing dead ever comes.

It holds for what one process has partitioned itself; no graph takes it to another task."""
