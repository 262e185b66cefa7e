"""Deliberately broken allocators; see `test_seeded_faults.py`."""

from __future__ import annotations

import pytest

from graphmill.errors import ResourceExhaustedError
from graphmill.runtime.devices.allocator import LimitedAllocator
from graphmill.testing.conformance import AllocatorTests


class Sound(LimitedAllocator):
    pass


class IgnoresFrees(LimitedAllocator):
    def deallocate(self, memory):
        pass


class IgnoresLimit(LimitedAllocator):
    def __init__(self, name, limit):
        super().__init__(name, 0)


class LimitTooLow(LimitedAllocator):
    def __init__(self, name, limit):
        super().__init__(name, limit - 1)


class OmitsSizesInError(LimitedAllocator):
    def allocate(self, num_bytes):
        try:
            return super().allocate(num_bytes)
        except ResourceExhaustedError:
            raise ResourceExhaustedError("out of memory") from None


class FreesTwice(LimitedAllocator):
    def deallocate(self, memory):
        if id(memory) in self._sizes or hasattr(memory, "nbytes"):
            self._sizes.setdefault(id(memory), (memory, 0))
            super().deallocate(memory)


class FreesForeignMemory(LimitedAllocator):
    def deallocate(self, memory):
        if id(memory) in self._sizes:
            super().deallocate(memory)


class AllowsNegativeSizes(LimitedAllocator):
    def allocate(self, num_bytes):
        return super().allocate(max(num_bytes, 0))


class RejectsEmptyAllocations(LimitedAllocator):
    def allocate(self, num_bytes):
        if num_bytes == 0:
            raise ResourceExhaustedError("0 bytes")
        return super().allocate(num_bytes)


class IgnoresAlignment(LimitedAllocator):
    def _allocate(self, num_bytes):
        return super()._allocate(num_bytes + 1)[1:]


class ReturnsOverlappingMemory(LimitedAllocator):
    def _allocate(self, num_bytes):
        if not hasattr(self, "whole"):
            self.whole = super()._allocate(1 << 16)
        return self.whole[:num_bytes]


class LeaksRejectedAllocations(LimitedAllocator):
    def allocate(self, num_bytes):
        try:
            return super().allocate(num_bytes)
        except ResourceExhaustedError:
            self._in_use += 1
            raise


def suite(kind):
    class Suite(AllocatorTests):
        @pytest.fixture
        def allocator(self):
            return kind("FAULTY", self.limit)

    Suite.__name__ = Suite.__qualname__ = f"Test{kind.__name__}"
    return Suite


for made in (Sound, *LimitedAllocator.__subclasses__()):
    globals()[f"Test{made.__name__}"] = suite(made)
