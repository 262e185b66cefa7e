"""Kernels of staging areas: `Stage` by position, `MapStage` and `OrderedMapStage` by key.

Semantics: tensorflow/core/kernels/stage_op.cc, map_stage_op.cc.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError, ResourceExhaustedError
from graphmill.spi import DEAD, kernel
from graphmill.spi.kernels import num_bytes_of_value
from graphmill_plugins.kernels._support import scalar_int
from graphmill_plugins.kernels.data_flow._staging import Store
from graphmill_plugins.kernels.state.value import keepable, resource_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value

    Done = Callable[..., None]

_STATE = ("state",)


def _bytes_of(values: list[Value]) -> int:
    return sum(map(num_bytes_of_value, values))


class Area(Store):
    """Holds elements up to a count and a size in bytes; 0 means no limit.

    Attributes:
        elements: by index for a `Stage`, by key for a map.
        partial: for a map the elements of which components are missing, by key.
    """

    def __init__(self, capacity: int, memory_limit: int) -> None:
        super().__init__()
        self.capacity, self.memory_limit = capacity, memory_limit
        self.queue: list[list[Value]] = []
        self.elements: dict[int, list[Value]] = {}
        self.partial: dict[int, dict[int, Value]] = {}
        self.size_in_bytes = 0

    def has_room(self, values: list[Value]) -> bool:
        """Return whether one more element with these values fits.

        Raises:
            ResourceExhaustedError: the values alone are larger than the limit.
        """
        more = _bytes_of(values)
        if self.memory_limit and more > self.memory_limit:
            raise ResourceExhaustedError(
                f"Attempted to insert tensors with combined size of '{more}' bytes into Staging "
                f"Area with a memory limit of '{self.memory_limit}'."
            )
        if self.memory_limit and self.size_in_bytes + more > self.memory_limit:
            return False
        return not self.capacity or self.count < self.capacity

    @property
    def count(self) -> int:
        """Number of elements that can be taken."""
        return len(self.queue) + len(self.elements)

    def keep(self, key: int, values: list[Value]) -> None:
        """Store a whole element, unless its key exists."""
        if self.elements.setdefault(key, values) is values:
            self.size_in_bytes += _bytes_of(values)

    def keep_part(self, key: int, values: dict[int, Value], whole: int) -> None:
        """Store components of an element by index until all `whole` of them are there.

        Raises:
            InvalidArgumentError: one already exists.
        """
        part = self.partial.setdefault(key, {})
        for place in values:
            if place in part:
                raise InvalidArgumentError(
                    f"The tensor for index '{place}' for key '{key}' was already initialized "
                    f"'{whole}'."
                )
        part.update(values)
        self.size_in_bytes += _bytes_of(list(values.values()))
        if len(part) == whole:
            del self.partial[key]
            complete = [part[place] for place in range(whole)]
            self.size_in_bytes -= _bytes_of(complete)
            self.keep(key, complete)

    def clear(self) -> None:
        """Drop all elements."""
        with self.lock:
            self.queue.clear()
            self.elements.clear()
            self.partial.clear()
            self.size_in_bytes = 0
        self.changed()


class _AreaKernel:
    """Finds or creates the staging area named by its attrs."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        attrs = construction.attrs
        self._container, self._name = resource_key(construction, is_shared_by_node_name=True)
        self._capacity: int = attrs["capacity"]
        self._memory_limit: int = attrs["memory_limit"]
        self._dtypes = attrs["dtypes"]
        self._is_ordered = construction.op.startswith("Ordered")

    def _area(self, ctx: OpKernelContext) -> Area:
        return ctx.resources.lookup_or_create(
            self._container,
            self._name,
            Area,
            lambda: Area(self._capacity, self._memory_limit),
        )

    def _checked(self, values: list[Value]) -> list[Value]:
        """Return the components of an element, as many as the node has outputs."""
        if len(values) != len(self._dtypes):
            raise InvalidArgumentError(
                f"Mismatch stage/unstage: {len(values)} vs. {len(self._dtypes)}; both nodes need "
                "the same dtypes"
            )
        return values


@kernel("Stage", async_=True, waits=True, effects=_STATE)
class StageKernel(_AreaKernel):
    """Put an element in, waiting for room."""

    def __call__(self, ctx: OpKernelContext, values: list[Value], done: Done) -> None:
        """Call `done` when the element is in."""
        area = self._area(ctx)
        kept = [keepable(value) for value in values]

        def put() -> tuple[Any] | None:
            if not area.has_room(kept):
                return None
            area.queue.append(kept)
            area.size_in_bytes += _bytes_of(kept)
            return (None,)

        area.submit(put, done, ctx.cancellation)


@kernel("Unstage", async_=True, waits=True, effects=_STATE)
class UnstageKernel(_AreaKernel):
    """Take the oldest element out, waiting for one."""

    def __call__(self, ctx: OpKernelContext, done: Done) -> None:
        """Call `done` with the element."""
        area = self._area(ctx)

        def take() -> tuple[Any] | None:
            if not area.queue:
                return None
            values = area.queue.pop(0)
            area.size_in_bytes -= _bytes_of(values)
            return (self._checked(values),)

        area.submit(take, done, ctx.cancellation, is_take=True)


@kernel("StagePeek", async_=True, waits=True, host_memory=("index",), effects=_STATE)
class StagePeekKernel(_AreaKernel):
    """Return an element by position, waiting for it."""

    def __call__(self, ctx: OpKernelContext, index: Value, done: Done) -> None:
        """Call `done` with the element."""
        area = self._area(ctx)
        place = scalar_int("index", index)
        if place < 0:
            raise InvalidArgumentError(f"the index of a StagePeek is {place}, expected 0 or more")

        def look() -> tuple[Any] | None:
            return (self._checked(area.queue[place]),) if place < len(area.queue) else None

        area.submit(look, done, ctx.cancellation, is_take=True)


@kernel("StageSize", "MapSize", "OrderedMapSize", stateful=True, effects=_STATE)
class AreaSizeKernel(_AreaKernel):
    """Return the number of elements that can be taken."""

    def __call__(self, ctx: OpKernelContext) -> Value:
        """Return the number."""
        return np.int32(self._area(ctx).count)


@kernel("MapIncompleteSize", "OrderedMapIncompleteSize", stateful=True, effects=_STATE)
class AreaIncompleteSizeKernel(_AreaKernel):
    """Return the number of incomplete elements."""

    def __call__(self, ctx: OpKernelContext) -> Value:
        """Return the number."""
        return np.int32(len(self._area(ctx).partial))


@kernel("StageClear", "MapClear", "OrderedMapClear", stateful=True, effects=_STATE)
class AreaClearKernel(_AreaKernel):
    """Drop all elements."""

    def __call__(self, ctx: OpKernelContext) -> None:
        """Clear the area."""
        self._area(ctx).clear()


class _MapKernel(_AreaKernel):
    """Base of the kernels that put and take by key; checks component indices."""

    def _indices(self, indices: Value, count: int | None = None) -> list[int]:
        found: list[int] = indices.ravel().tolist()
        if not found:
            raise InvalidArgumentError("Indices are empty")
        if any(right <= left for left, right in pairwise(found)):
            raise InvalidArgumentError(f"Indices are not strictly ordered: {found}")
        if count is not None and len(found) != count:
            raise InvalidArgumentError(
                f"there are {len(found)} indices for {count} values; give one for each"
            )
        for index in found:
            if not 0 <= index < len(self._dtypes):
                raise InvalidArgumentError(
                    f"Index '{index}' is out of bounds '[0, {len(self._dtypes)})'"
                )
        return found


@kernel(
    "MapStage",
    "OrderedMapStage",
    async_=True,
    waits=True,
    host_memory=("key", "indices"),
    effects=_STATE,
)
class MapStageKernel(_MapKernel):
    """Put components of an element in under a key; wait for room."""

    def __call__(
        self, ctx: OpKernelContext, key: Value, indices: Value, values: list[Value], done: Done
    ) -> None:
        """Call `done` when the components are in."""
        area = self._area(ctx)
        number = scalar_int("key", key)
        kept = [keepable(value) for value in values]
        places = self._indices(indices, len(kept))

        def put() -> tuple[Any] | None:
            if not area.has_room(kept):
                return None
            if len(kept) == len(self._dtypes):
                area.keep(number, kept)
            else:
                area.keep_part(number, dict(zip(places, kept, strict=True)), len(self._dtypes))
            return (None,)

        area.submit(put, done, ctx.cancellation)


@kernel(
    *("MapUnstage", "MapPeek", "OrderedMapUnstage", "OrderedMapPeek"),
    async_=True,
    waits=True,
    host_memory=("key", "indices"),
    effects=_STATE,
)
class MapTakeKernel(_MapKernel):
    """Take or peek components of the element of a key, waiting for it."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        super().__init__(construction)
        self._is_look = construction.op.endswith("Peek")

    def __call__(self, ctx: OpKernelContext, key: Value, indices: Value, done: Done) -> None:
        """Call `done` with the components."""
        area = self._area(ctx)
        number, places = scalar_int("key", key), self._indices(indices)

        def take() -> tuple[Any] | None:
            if number not in area.elements:
                return None
            return (_taken(area, number, places, is_look=self._is_look),)

        area.submit(take, done, ctx.cancellation, is_take=True)


@kernel(
    *("MapUnstageNoKey", "OrderedMapUnstageNoKey"),
    async_=True,
    waits=True,
    host_memory=("key", "indices"),
    effects=_STATE,
)
class MapTakeAnyKernel(_MapKernel):
    """Take components of any element; of the smallest key if keys are ordered."""

    def __call__(self, ctx: OpKernelContext, indices: Value, done: Done) -> None:
        """Call `done` with the key and the components."""
        area = self._area(ctx)
        places = self._indices(indices)

        def take() -> tuple[Any] | None:
            if not area.elements:
                return None
            number = min(area.elements) if self._is_ordered else next(iter(area.elements))
            return ((np.int64(number), _taken(area, number, places, is_look=False)),)

        area.submit(take, done, ctx.cancellation, is_take=True)


def _taken(area: Area, number: int, places: list[int], *, is_look: bool) -> list[Value]:
    """Return the components that were asked for; the outputs after those have no value."""
    values = area.elements[number]
    if any(values[place] is None for place in places):
        raise InvalidArgumentError(f"a component of key '{number}' has already been removed")
    found = [values[place] for place in places]
    if not is_look:
        area.size_in_bytes -= _bytes_of(found)
        area.elements[number] = [
            None if place in places else value for place, value in enumerate(values)
        ]
        if all(value is None for value in area.elements[number]):
            del area.elements[number]
    return found + [DEAD] * (len(values) - len(found))
