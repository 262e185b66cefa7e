"""`Allocator`: allocates and accounts for the memory of a device (clauses R2, P2).

Array libraries manage their memory, so most devices have no allocator. A device that manages its
memory itself subclasses `Allocator`, which enforces the limit and keeps the statistics; the
subclass allocates and frees.

Semantics: `tensorflow/core/framework/allocator.h` (AllocatorStats, Allocator).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from graphmill.errors import FailedPreconditionError, InvalidArgumentError, ResourceExhaustedError
from graphmill.runtime.process.fork import fork_safe_lock

_RENAMED: Final = {"_take": "_allocate", "_give_back": "_free"}  # until the next version

ALIGNMENT: Final = 64
"""Alignment of memory in bytes: a cache line, and the largest alignment of vector instructions."""


@dataclass(frozen=True, slots=True)
class AllocatorStats:
    """The statistics of an allocator, in bytes except for the number of allocations.

    Attributes:
        num_allocs: the number of allocations.
        bytes_in_use: the size of all memory in use.
        peak_bytes_in_use: the maximum of `bytes_in_use`.
        largest_alloc_size: the largest single allocation.
        bytes_limit: the maximum size of memory in use; 0 for no limit.
    """

    num_allocs: int = 0
    bytes_in_use: int = 0
    peak_bytes_in_use: int = 0
    largest_alloc_size: int = 0
    bytes_limit: int = 0


class Allocator(ABC):
    """Allocates memory up to a limit.

    Threads: any may call anything; `_lock` guards the statistics and is not held in `_allocate` and
    `_free`.

    Args:
        name: the name of the device, for messages.
        limit: the maximum number of bytes in use; 0 for no limit.
    """

    def __init__(self, name: str, limit: int = 0) -> None:
        self.name = name
        self.limit = limit
        self._lock = fork_safe_lock()
        self._sizes: dict[int, tuple[Any, int]] = {}  # by id: memory and size
        self._in_use = 0
        self._peak = 0
        self._largest = 0
        self._count = 0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Accept methods by their old names, with a warning; `super()` has both names."""
        super().__init_subclass__(**kwargs)
        for old, new in _RENAMED.items():
            if old in cls.__dict__:
                from graphmill.deprecations import warn_renamed

                warn_renamed(f"{cls.__name__}.{old}", new, stacklevel=4)  # past `ABCMeta`
                setattr(cls, new, cls.__dict__[old])
            elif new in cls.__dict__:
                setattr(cls, old, cls.__dict__[new])

    @abstractmethod
    def _allocate(self, num_bytes: int) -> Any:
        """Return new memory, aligned to `ALIGNMENT`, as an object that is not used elsewhere."""

    def _free(self, memory: Any) -> None:  # noqa: B027 - Python frees what is not used
        """Free memory that `_allocate` returned."""

    def allocate(self, num_bytes: int) -> Any:
        """Return new memory; 0 bytes are allowed.

        Raises:
            InvalidArgumentError: the size is negative.
            ResourceExhaustedError: the limit would be exceeded; says what is in use.
        """
        if num_bytes < 0:
            raise InvalidArgumentError(f"{self.name}: cannot allocate {num_bytes} bytes")
        with self._lock:
            if self.limit and self._in_use + num_bytes > self.limit:
                raise ResourceExhaustedError(
                    f"{self.name} is out of memory: {num_bytes} bytes were requested, "
                    f"{self._in_use} of {self.limit} are in use by {len(self._sizes)} tensors "
                    f"(at most {self._peak} so far)",
                    device=self.name,
                )
            self._in_use += num_bytes  # reserve, so that the limit holds during `_allocate`
        try:
            memory = self._allocate(num_bytes)
        except BaseException:
            with self._lock:
                self._in_use -= num_bytes
            raise
        with self._lock:
            self._sizes[id(memory)] = (memory, num_bytes)
            self._count += 1
            self._peak = max(self._peak, self._in_use)
            self._largest = max(self._largest, num_bytes)
        return memory

    def deallocate(self, memory: Any) -> None:
        """Free memory that `allocate` returned.

        Raises:
            FailedPreconditionError: this allocator did not allocate it, or it has been freed.
        """
        with self._lock:
            entry = self._sizes.pop(id(memory), None)
            if entry is not None:
                self._in_use -= entry[1]
        if entry is None:
            raise FailedPreconditionError(
                f"{self.name}: this memory is not in use; it was freed already, or belongs to "
                f"another allocator"
            )
        self._free(memory)

    def stats(self) -> AllocatorStats:
        """Return the current statistics."""
        with self._lock:
            return AllocatorStats(self._count, self._in_use, self._peak, self._largest, self.limit)


class LimitedAllocator(Allocator):
    """Allocates host memory as NumPy arrays of bytes, up to a limit."""

    def _allocate(self, num_bytes: int) -> Any:
        whole = np.empty(num_bytes + ALIGNMENT, np.uint8)
        start = -whole.ctypes.data % ALIGNMENT
        return whole[start : start + num_bytes]
