"""`OpSegment`: stateful kernels, made once for each session and node and shared by its executors.

Semantics: `tensorflow/core/framework/op_segment.h`. A device belongs to one session here, so the
node's name is the whole key. The nodes of a function, whose names are its own, have a segment of
their own in each session and for each set of attrs that it is called with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.runtime.process.fork import fork_safe_lock

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.runtime.kernel import OpKernel


class OpSegment:
    """The stateful kernels of one session on one device, or of one of its functions.

    Threads: `_lock` guards the table; kernels are made outside it, and the first one made wins.
    """

    def __init__(self) -> None:
        self._lock = fork_safe_lock()
        self._kernels: dict[str, OpKernel] = {}

    def find_or_create(self, node_name: str, create: Callable[[], OpKernel]) -> OpKernel:
        """Return the kernel of a node, made by `create` at its first use."""
        with self._lock:
            found = self._kernels.get(node_name)
        if found is not None:
            return found
        made = create()
        with self._lock:
            return self._kernels.setdefault(node_name, made)

    def clear(self) -> None:
        """Drop all kernels."""
        with self._lock:
            self._kernels.clear()
