"""`AllocatorTests`: allocators honour their limit and keep statistics (clauses R2, P2)."""

from __future__ import annotations

import random
import threading
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from graphmill import errors
from graphmill.testing.conformance.clauses import clauses

if TYPE_CHECKING:
    from graphmill.runtime.devices.allocator import Allocator


class AllocatorTests:
    """Test an allocator against its contract; override `allocator`.

        class TestNpuAllocator(AllocatorTests):
            @pytest.fixture
            def allocator(self):
                return NpuAllocator("NPU:0", self.limit)

    Attributes:
        limit: the limit in bytes of the allocator that the fixture returns.
    """

    graphmill_suite: ClassVar[str] = "AllocatorTests"
    limit: ClassVar[int] = 1 << 16

    @pytest.fixture
    def allocator(self) -> Allocator:
        """Return a fresh allocator with the limit `limit`."""
        raise NotImplementedError("override the fixture `allocator`")

    @clauses("R2")
    def test_statistics_count_allocations(self, allocator: Allocator) -> None:
        """Statistics count sizes when memory is allocated and when it is freed."""
        first, second = allocator.allocate(1000), allocator.allocate(24)
        stats = allocator.stats()
        assert (stats.num_allocs, stats.bytes_in_use, stats.bytes_limit) == (2, 1024, self.limit)
        assert (stats.largest_alloc_size, stats.peak_bytes_in_use) == (1000, 1024)
        allocator.deallocate(first)
        assert allocator.stats().bytes_in_use == 24
        allocator.deallocate(second)
        stats = allocator.stats()
        assert (stats.bytes_in_use, stats.peak_bytes_in_use) == (0, 1024)

    @clauses("R2", "S12")
    def test_exceeding_the_limit_is_resource_exhausted(self, allocator: Allocator) -> None:
        """Exceeding the limit is RESOURCE_EXHAUSTED with sizes; smaller requests still succeed."""
        block = allocator.allocate(self.limit - 10)
        with pytest.raises(errors.ResourceExhaustedError, match=str(self.limit)) as caught:
            allocator.allocate(11)
        assert str(self.limit - 10) in str(caught.value), (
            "the message does not state the bytes in use"
        )
        small = allocator.allocate(10)
        allocator.deallocate(small)
        allocator.deallocate(block)
        allocator.deallocate(allocator.allocate(self.limit))

    @clauses("R2")
    def test_double_free_is_refused(self, allocator: Allocator) -> None:
        """Freeing twice, or freeing foreign memory, is an error and changes nothing."""
        memory = allocator.allocate(64)
        allocator.deallocate(memory)
        for wrong in (memory, object()):
            with pytest.raises(errors.FailedPreconditionError):
                allocator.deallocate(wrong)
        assert allocator.stats().bytes_in_use == 0

    @clauses("R2")
    def test_zero_bytes_are_accepted_and_negative_sizes_refused(self, allocator: Allocator) -> None:
        """Zero bytes can be allocated; a negative size is an error."""
        empty = allocator.allocate(0)
        allocator.deallocate(empty)
        with pytest.raises(errors.InvalidArgumentError):
            allocator.allocate(-1)

    @clauses("R2")
    def test_pieces_do_not_overlap(self, allocator: Allocator) -> None:
        """Pieces do not overlap, and are aligned if their address can be read."""
        pieces = [allocator.allocate(100) for _ in range(8)]
        assert len({id(piece) for piece in pieces}) == 8
        if all(hasattr(piece, "ctypes") for piece in pieces):
            starts = sorted(piece.ctypes.data for piece in pieces)
            assert not any(start % 64 for start in starts)
            assert all(b - a >= 100 for a, b in pairwise(starts))
        for piece in pieces:
            allocator.deallocate(piece)

    @clauses("R2")
    @pytest.mark.parametrize("seed", range(5))
    def test_statistics_hold_after_any_order_of_calls(
        self, allocator: Allocator, seed: int
    ) -> None:
        """After a random sequence of calls the statistics equal a simple count."""
        draw = random.Random(seed)
        blocks: list[tuple[Any, int]] = []
        for _ in range(200):
            size = draw.randrange(self.limit // 4)
            used = sum(amount for _, amount in blocks)
            if blocks and draw.random() < 0.4:
                memory, _ = blocks.pop(draw.randrange(len(blocks)))
                allocator.deallocate(memory)
            elif used + size <= self.limit:
                blocks.append((allocator.allocate(size), size))
            else:
                with pytest.raises(errors.ResourceExhaustedError):
                    allocator.allocate(size)
            assert allocator.stats().bytes_in_use == sum(amount for _, amount in blocks)

    @clauses("R2")
    def test_statistics_are_exact_with_threads(self, allocator: Allocator) -> None:
        """Statistics are exact when several threads allocate and free."""

        def work() -> None:
            for _ in range(100):
                allocator.deallocate(allocator.allocate(16))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        stats = allocator.stats()
        assert (stats.bytes_in_use, stats.num_allocs) == (0, 400)
        assert stats.peak_bytes_in_use <= 64
