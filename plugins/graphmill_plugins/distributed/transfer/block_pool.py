"""`BlockPool`: a bounded pool of a sender's shared-memory blocks.

New memory costs far more than a copy into existing memory, because each page is cleared and mapped
first. So blocks are kept for a while after their receivers have released them.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any, Final

from graphmill.spi.process import fork_safe_lock
from graphmill_plugins.distributed.transfer.settings import EXPIRY_SECONDS
from graphmill_plugins.distributed.transfer.shared_block import DATA, SharedBlock

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np

IDLE_SECONDS: Final = 30.0
"""Seconds after which an unused block is closed."""
_GRAIN: Final = 64 << 10
_MAX_SIZE_RATIO: Final = 2  # the maximum size of a block, as a multiple of its tensor's size


class _Entry:
    """A block, with the state of its current transfer."""

    __slots__ = ("block", "is_given_up", "is_written", "since", "step_id")

    def __init__(self, block: SharedBlock) -> None:
        self.block = block
        self.step_id = 0
        self.since = 0.0
        self.is_written = False  # being written now
        self.is_given_up = True  # its content will not be fetched any more


class BlockPool:
    """The shared-memory blocks of one sender.

    Threads: `_lock` guards the table; tensors are copied outside of it.

    Args:
        max_bytes: the maximum total size of all blocks.
        clock: returns the time in seconds.
    """

    def __init__(self, max_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_bytes = max_bytes
        self._clock = clock
        self._lock = fork_safe_lock()
        self._owner = os.getpid()
        self._entries: list[_Entry] = []  # by size

    @property
    def num_bytes(self) -> int:
        """The total size of all blocks."""
        return sum(entry.block.capacity for entry in self._entries)

    @property
    def num_in_use(self) -> int:
        """The number of blocks whose tensor is offered or used by a receiver."""
        with self._lock:
            return sum(not self._try_begin(entry, 0) for entry in self._entries)

    def put(
        self, array: np.ndarray[Any, Any], step_id: int, transfer_id: int
    ) -> SharedBlock | None:
        """Copy a tensor into a block; return None if the bounds leave no memory for it.

        Args:
            array: the tensor.
            step_id: its step, whose end withdraws it.
            transfer_id: identifies the transfer.
        """
        if os.getpid() != self._owner:  # a forked child: the blocks are its parent's
            return None
        with self._lock:
            entry = self._take(array.nbytes, transfer_id)
            if entry is None:
                return None
            entry.step_id, entry.since = step_id, self._clock()
            entry.is_given_up, entry.is_written = False, True
        try:
            entry.block.write(array)
        finally:
            entry.is_written = False
        return entry.block

    def find(self, transfer_id: int) -> SharedBlock | None:
        """Return the block of a transfer that has not been taken."""
        with self._lock:
            for entry in self._entries:
                if entry.block.transfer_id == transfer_id and not entry.is_given_up:
                    return entry.block
        return None

    def end_step(self, step_id: int) -> None:
        """Withdraw the untaken tensors of a step; close blocks that have been idle for long."""
        with self._lock:
            for entry in self._entries:
                if entry.step_id == step_id:
                    entry.is_given_up = True
            self._close_idle(self._clock() - IDLE_SECONDS)

    def close(self) -> None:
        """Release all memory; mappings of receivers stay valid."""
        with self._lock:
            entries, self._entries = self._entries, []
            for entry in entries:
                entry.block.close()

    def _take(self, num_bytes: int, transfer_id: int) -> _Entry | None:
        for entry in self._entries:
            fits = num_bytes <= entry.block.capacity <= _MAX_SIZE_RATIO * num_bytes + _GRAIN
            if fits and self._try_begin(entry, transfer_id):
                return entry
        capacity = -(-(num_bytes + DATA) // _GRAIN) * _GRAIN - DATA
        if self.num_bytes + capacity > self._max_bytes:
            self._close_idle(self._clock())
            if self.num_bytes + capacity > self._max_bytes:
                return None
        try:
            new_entry = _Entry(SharedBlock(capacity))
        except OSError:  # no memory or no file descriptor: use another path
            return None
        new_entry.block.begin(transfer_id)
        self._entries.append(new_entry)
        self._entries.sort(key=lambda entry: entry.block.capacity)
        return new_entry

    def _try_begin(self, entry: _Entry, transfer_id: int) -> bool:
        """Reserve a block, unless it is in use or its tensor may still be fetched."""
        if entry.is_written:
            return False
        may_come = not entry.is_given_up and not entry.block.is_taken
        if may_come and self._clock() - entry.since < EXPIRY_SECONDS:
            return False
        if not entry.block.begin(transfer_id):
            return False
        entry.is_given_up = True
        return True

    def _close_idle(self, before: float) -> None:
        for entry in list(self._entries):
            if entry.since <= before and self._try_begin(entry, 0):
                self._entries.remove(entry)
                entry.block.close()
