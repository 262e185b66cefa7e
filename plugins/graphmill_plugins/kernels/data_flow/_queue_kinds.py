"""The kinds of queues, which differ in the order of their elements.

Semantics: tensorflow/core/kernels/fifo_queue.cc, padding_fifo_queue.cc, priority_queue.cc,
random_shuffle_queue_op.cc.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels.data_flow._prioritised import Prioritised
from graphmill_plugins.kernels.data_flow._queue import Queue

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import Shape
    from graphmill_plugins.kernels.data_flow._queue import Element


class FifoQueue(Queue):
    """A queue that returns its elements in order of arrival."""

    kind = "FIFOQueue"

    def put(self, element: Element) -> None:
        """Add an element at the end."""
        self.entries.append(element)

    def take(self) -> Element:
        """Take the first element."""
        element: Element = self.entries.popleft()
        return element

    def put_back(self, elements: Sequence[Element]) -> None:
        """Put elements back in front."""
        self.entries.extendleft(reversed(elements))


class PaddingFifoQueue(FifoQueue):
    """A FIFO queue with partly unknown shapes; batches are padded to one size."""

    kind = "PaddingFIFOQueue"


class RandomShuffleQueue(Queue):
    """A queue that returns elements in random order, with a minimum size for shuffling.

    Args:
        numbers: random numbers of 32 bits.
        min_after_dequeue: the minimum number of elements that stay while the queue is open.
    """

    kind = "RandomShuffleQueue"

    def __init__(
        self,
        name: str,
        dtypes: tuple[DType, ...],
        shapes: tuple[Shape, ...] | None = None,
        capacity: int = -1,
        *,
        numbers: Iterable[int],
        min_after_dequeue: int = 0,
        seeds: tuple[int, int] = (0, 0),
    ) -> None:
        super().__init__(name, dtypes, shapes, capacity)
        self._numbers = iter(numbers)
        self.min_after_dequeue = min_after_dequeue
        self.seeds = seeds
        if min_after_dequeue < 0:
            raise InvalidArgumentError(f"min_after_dequeue {min_after_dequeue} must be >= 0")
        if min_after_dequeue >= self.capacity:
            raise InvalidArgumentError(
                f"min_after_dequeue {min_after_dequeue} must be < capacity {self.capacity}"
            )

    @property
    def available(self) -> int:
        """Number of elements that can be dequeued now."""
        return len(self.entries) - (0 if self.is_closed else self.min_after_dequeue)

    def put(self, element: Element) -> None:
        """Add an element."""
        self.entries.append(element)

    def take(self) -> Element:
        """Take a random element; the last one replaces it."""
        entries = self.entries
        index = next(self._numbers) % len(entries)
        element: Element = entries[index]
        entries[index] = entries[-1]
        entries.pop()
        return element

    def put_back(self, elements: Sequence[Element]) -> None:
        """Add the elements again."""
        # In TensorFlow's order: the element dequeued last is put back first.
        self.entries.extend(reversed(elements))

    def _more_limits(self) -> str:
        return f", min_after_dequeue {self.min_after_dequeue}" if self.min_after_dequeue else ""

    def _new_entries(self) -> Any:
        return []


class PriorityQueue(Queue):
    """A queue that returns the element with the smallest first component.

    The elements of one dequeue are in order of priority, so it takes none until all are available.
    """

    kind = "PriorityQueue"
    dequeues_atomically = True

    def put(self, element: Element) -> None:
        """Add an element."""
        heapq.heappush(self.entries, Prioritised.of(element[0], element))

    def take(self) -> Element:
        """Take an element with the smallest priority value."""
        element: Element = heapq.heappop(self.entries).element
        return element

    def put_back(self, elements: Sequence[Element]) -> None:
        """Add the elements again."""
        for element in reversed(elements):
            self.put(element)

    def _new_entries(self) -> Any:
        return []
