"""`ExecutorsAndKeys` and the cache of them (clause S5).

Semantics: `GetOrCreateExecutors` in `tensorflow/core/common_runtime/direct_session.cc`.
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from graphmill.runtime.process.fork import fork_safe_lock
from graphmill.session.hot_states import HotGraph

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.dtypes import DType
    from graphmill.lowering.callable_options import CallableRewrites
    from graphmill.lowering.partitioning.build_executors import PerPartition
    from graphmill.lowering.placement.placer import PlacementRecord
    from graphmill.session.reports.cost_model import CostModel
    from graphmill.typing import Shape

Signature: TypeAlias = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
"""Names of feeds, fetches and targets."""

_SYNC_VARIABLE: Final = "TF_SYNC_ON_FINISH"
NEVER: Final = sys.maxsize
"""A step count that is never reached."""


class ExecutorsAndKeys:
    """The executors of one signature, and the data to call them.

    Attributes:
        items: the partitions with their executors.
        feeds, fetches: tensor names in the order of the call frame's arguments and results.
        targets: names of the nodes that run as well.
        feed_types, fetch_types: their element types.
        feed_shapes: the static shapes of the feeds.
        step_count: the number of its steps; a statistic, written without a lock.
        last_step: id of its latest step, for eviction from the cache.
        needed_feeds: the feeds that each fetch needs, in a partial run.
        rewrites: further options of a callable.
        syncs_devices: whether a step ends only when its devices have finished their work.
        hot: the hot graph of the signature, or its state on the way there; see `HotSteps`.
        serving: the partitions that ordinary steps run: `items`, or those of the hot graph; set by
            `HotSteps`.
        build_at: the step after which the hot graph is built; `NEVER` for none; set by `HotSteps`.
        is_closed: whether the executors have been closed.
        costs: the measurements of `build_cost_model`; None before the first one.
        converters: for each feed, the function that converts the caller's value to a tensor.
        to_host: for each fetch, the function that converts a value of its device to a host value.
        placements: why each node is on its device; empty where the session has one device.
    """

    __slots__ = (
        *("items", "feeds", "fetches", "targets", "feed_types", "fetch_types", "feed_shapes"),
        *("converters", "to_host", "placements", "needed_feeds", "rewrites", "syncs_devices"),
        *("step_count", "last_step", "hot", "serving", "build_at", "is_closed", "costs"),
    )

    def __init__(
        self,
        items: tuple[PerPartition, ...],
        feeds: tuple[str, ...] = (),
        fetches: tuple[str, ...] = (),
        targets: tuple[str, ...] = (),
        feed_types: tuple[DType, ...] = (),
        fetch_types: tuple[DType, ...] = (),
        feed_shapes: tuple[Shape, ...] = (),
        *,
        converters: tuple[Callable[[Any], Any], ...] = (),
        to_host: tuple[Callable[[Any], Any], ...] = (),
        placements: tuple[PlacementRecord, ...] = (),
        needed_feeds: dict[str, set[str]] | None = None,
        rewrites: CallableRewrites | None = None,
        syncs_devices: bool = False,
    ) -> None:
        self.items = items
        self.feeds = feeds
        self.fetches = fetches
        self.targets = targets
        self.feed_types = feed_types
        self.fetch_types = fetch_types
        self.feed_shapes = feed_shapes
        self.converters = converters
        self.to_host = to_host
        self.placements = placements
        self.needed_feeds = needed_feeds or {}
        self.rewrites = rewrites
        self.syncs_devices = syncs_devices
        self.step_count = 0
        self.last_step = 0
        self.hot = HotGraph()
        self.serving = items
        self.build_at = NEVER
        self.is_closed = False
        self.costs: CostModel | None = None

    @property
    def hot_items(self) -> tuple[PerPartition, ...] | None:
        """The partitions of the hot graph; None until it is built."""
        return self.hot.items

    def close(self) -> None:
        """Close the executors."""
        self.is_closed = True
        for item in (*self.items, *(self.hot.items or ())):
            item.executor.close()


def syncs_devices(items: Sequence[PerPartition], rewrites: CallableRewrites | None = None) -> bool:
    """Return whether a step must wait for its devices before it ends.

    Semantics: `sync_on_finish_` in `tensorflow/core/common_runtime/direct_session.cc`, with its
    environment variable.

    Args:
        items: the partitions.
        rewrites: further options of a callable, which may ask not to wait.
    """
    if rewrites is not None and rewrites.skips_sync:
        return False
    is_off = os.environ.get(_SYNC_VARIABLE, "").lower() in ("0", "false")
    return not is_off and any(item.device.may_be_in_flight for item in items)


class CachedExecutors:
    """An entry for one caller: the shared executors, and the caller's order of feeds and fetches.

    Attributes:
        executors: the executors, shared by all orders of one signature.
        feed_order: for each argument of the executors, its index among the caller's feeds; None if
            the orders are the same.
        fetch_order: for each of the caller's fetches, its index among the executors' results; None
            if the orders are the same.
    """

    __slots__ = ("executors", "feed_order", "fetch_order")

    def __init__(
        self,
        executors: ExecutorsAndKeys,
        feed_order: tuple[int, ...] | None,
        fetch_order: tuple[int, ...] | None,
    ) -> None:
        self.executors = executors
        self.feed_order = feed_order
        self.fetch_order = fetch_order


class ExecutorsCacheWarning(UserWarning):
    """A session runs so many different signatures that it mostly creates executors."""


class ExecutorsCache:
    """A bounded cache of the executors of one session.

    A lookup tries the signature as the caller wrote it, then sorted; entries are stored under both.
    They are created outside the lock; if another thread was first, its entry wins. Beyond
    `capacity` the least recently used entry is evicted; callables keep theirs.

    Threads: `_lock` guards both tables for writing; a lookup by the exact key takes no lock.

    Args:
        capacity: the maximum number of signatures.
        warn_at: the number of created entries at which the caller is warned, once.
    """

    def __init__(self, capacity: int = 256, warn_at: int = 64) -> None:
        self._lock = fork_safe_lock()
        self._exact: dict[Signature, CachedExecutors] = {}
        self._sorted: dict[Signature, ExecutorsAndKeys] = {}
        self._capacity = capacity
        self._warn_at = warn_at
        self.num_made = 0
        self.num_evicted = 0

    def find(self, key: Signature) -> CachedExecutors | None:
        """Return the entry of a signature as the caller wrote it, or None."""
        return self._exact.get(key)

    def get_or_create(
        self, key: Signature, create: Callable[[Signature], ExecutorsAndKeys]
    ) -> CachedExecutors:
        """Return the entry of a signature, created by `create` for the sorted form if necessary."""
        cached = self._exact.get(key)
        if cached is not None:
            return cached
        feeds, fetches, targets = key
        sorted_key = (
            tuple(sorted(feeds)),
            tuple(sorted(set(fetches))),
            tuple(sorted(set(targets))),
        )
        with self._lock:
            shared = self._sorted.get(sorted_key)
        if shared is None:
            executors = create(sorted_key)
            with self._lock:
                shared = self._sorted.setdefault(sorted_key, executors)
                if shared is executors:
                    self._evict()
            if shared is not executors:
                executors.close()
            else:
                self._note_growth()
        entry = CachedExecutors(
            shared,
            _order(feeds, shared.feeds),
            _order(shared.fetches, fetches),
        )
        with self._lock:
            return self._exact.setdefault(key, entry)

    def clear(self) -> None:
        """Drop and close all entries."""
        with self._lock:
            entries = list(self._sorted.values())
            self._sorted.clear()
            self._exact.clear()
        for entry in entries:
            entry.close()

    def entries(self) -> list[ExecutorsAndKeys]:
        """Return the entries of the cache, oldest first."""
        with self._lock:
            return list(self._sorted.values())

    def __len__(self) -> int:
        return len(self._sorted)

    def _evict(self) -> None:
        """Evict the least recently used entry if there are too many; the lock must be held."""
        if len(self._sorted) <= self._capacity:
            return
        *older, _ = self._sorted  # not the one that was just made
        oldest = min(older, key=lambda key: self._sorted[key].last_step)
        evicted = self._sorted.pop(oldest)
        for key in [key for key, entry in self._exact.items() if entry.executors is evicted]:
            del self._exact[key]
        self.num_evicted += 1

    def _note_growth(self) -> None:
        self.num_made += 1
        if self.num_made != self._warn_at:
            return
        warnings.warn(
            f"this session has been run with {self.num_made} different sets of feeds, fetches and "
            "targets. The graph is pruned and built again for each set, which costs far more "
            "than a step. Use fewer sets, or reuse the callables that make_callable returns",
            ExecutorsCacheWarning,
            stacklevel=_frames_inside() + 1,
        )


def _frames_inside() -> int:
    """Return the number of stack frames up to the first one outside of graphmill."""
    depth = 1
    frame = sys._getframe(1)  # noqa: SLF001 - as `warnings` does; inspect.stack reads files
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("graphmill."):
        frame = frame.f_back
        depth += 1
    return depth - 1


def _order(source: tuple[str, ...], requested: tuple[str, ...]) -> tuple[int, ...] | None:
    """Return for each name of `requested` its index in `source`; None if the two are the same."""
    if source == requested:
        return None
    position = {name: index for index, name in enumerate(source)}
    return tuple(position[name] for name in requested)
