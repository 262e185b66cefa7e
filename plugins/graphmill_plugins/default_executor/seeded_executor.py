"""An executor for tests that runs ready nodes in a random order given by a seed.

The order in which a step runs its nodes depends on threads and on the duration of kernels; each
order that respects the edges is legal. This executor draws a random legal order and runs it in one
thread, so that a test covers many orders and can repeat the one that failed.
"""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any, SupportsIndex

from graphmill.spi import Executor, ExecutorFactory
from graphmill_plugins.default_executor.executor import DefaultExecutor

if TYPE_CHECKING:
    from graphmill.spi import Graph, LocalExecutorParams


class RandomQueue(list[Any]):
    """A ready queue that returns nodes in a seeded random order.

    An odd seed draws a rank for each node and returns the node of the lowest rank, so that some
    nodes run very late, as they would behind a slow kernel. An even seed returns any ready node.
    """

    __slots__ = ("_random", "_ranks")

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = random.Random(seed)
        self._ranks: dict[int, float] | None = {} if seed % 2 else None

    def pop(self, index: SupportsIndex = -1) -> Any:
        """Remove a random node; `index` is ignored."""
        del index
        chosen = self._first() if self._ranks is not None else self._any()
        self[chosen], self[-1] = self[-1], self[chosen]
        return super().pop()

    def _any(self) -> int:
        return int(self._random.random() * len(self))

    def _first(self) -> int:
        return min(range(len(self)), key=lambda position: self._rank(self[position][0].id))

    def _rank(self, node: int) -> float:
        ranks: dict[int, float] = self._ranks  # type: ignore[assignment]
        rank = ranks.get(node)
        if rank is None:
            rank = ranks[node] = self._random.random()
        return rank


class SeededExecutorFactory(ExecutorFactory):
    """Makes executors that run nodes serially in random orders (clauses E5, E7).

    They start no thread, and check the invariants of the run after each node. No plugin registers
    this factory: call `host.executors.add("SEEDED", SeededExecutorFactory(7), owner="my tests")`.

    Args:
        seed: that of the first run; each run increments it. The same seed repeats the same orders.
    """

    observes_kernels = False

    def __init__(self, seed: int) -> None:
        self._seeds = itertools.count(seed)

    def new_executor(self, params: LocalExecutorParams, graph: Graph) -> Executor:
        """Return an executor of `graph`; raises what `DefaultExecutorFactory` does."""
        return DefaultExecutor(
            params,
            graph,
            uses_pool=False,
            new_queue=lambda: RandomQueue(next(self._seeds)),
            validates=True,
        )
