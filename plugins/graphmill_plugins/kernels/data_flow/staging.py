"""Kernels of staging areas: `Stage` by position, `MapStage` and `OrderedMapStage` by key.

Semantics: tensorflow/core/kernels/stage_op.cc, map_stage_op.cc.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError, ResourceExhaustedError
from graphmill.spi import DEAD, kernel
from graphmill.spi.kernels import dtype_of_value, has_dtype, num_bytes_of_value
from graphmill_plugins.kernels._support import scalar_int
from graphmill_plugins.kernels.data_flow._staging import Store
from graphmill_plugins.kernels.state.value import keepable, resource_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import Cancellation, OpKernelConstruction, OpKernelContext, Value

    Done = Callable[..., None]

_STATE = ("state",)


def _bytes_of(values: list[Value]) -> int:
    return sum(map(num_bytes_of_value, values))


class Area(Store):
    """A staging area with limits on its number of elements and bytes; 0 means no limit.

    Attributes:
        component_count: the number of components of an element, as the first node declares it.
        queue: the elements of a `Stage`.
        elements: the complete elements of a map, by key.
        partial: the incomplete elements of a map, by key: components by index.
    """

    def __init__(self, capacity: int, memory_limit: int, component_count: int) -> None:
        super().__init__()
        self.component_count = component_count
        self.capacity, self.memory_limit = capacity, memory_limit
        self.queue: list[list[Value]] = []
        self.elements: dict[int, list[Value]] = {}
        self.partial: dict[int, dict[int, Value]] = {}
        self.size_in_bytes = 0

    def __str__(self) -> str:
        limits = [f"capacity {self.capacity}"] if self.capacity else []
        if self.memory_limit:
            limits.append(f"{self.size_in_bytes} of {self.memory_limit} bytes")
        counts = [f"{self.count} elements", f"{len(self.partial)} incomplete"]
        return ", ".join((*counts, *limits))

    def has_room(self, values: list[Value], *, is_partial: bool = False) -> bool:
        """Return whether one more element with these values fits.

        Args:
            values: the values to store.
            is_partial: whether they are some of an element's components. These are stored even if
                there are as many elements as the area may have, as in TensorFlow.

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
        return is_partial or not self.capacity or self.count < self.capacity

    @property
    def count(self) -> int:
        """Number of elements that can be taken."""
        return len(self.queue) + len(self.elements)

    def insert(self, key: int, values: list[Value]) -> None:
        """Store a complete element, unless its key exists."""
        if self.elements.setdefault(key, values) is values:
            self.size_in_bytes += _bytes_of(values)

    def insert_components(self, key: int, values: dict[int, Value], count: int) -> None:
        """Store components of an element by index; with `count` of them it is complete.

        Raises:
            InvalidArgumentError: the element already has one of the components.
        """
        components = self.partial.setdefault(key, {})
        for index in values:
            if index in components:
                raise InvalidArgumentError(
                    f"The tensor for index '{index}' for key '{key}' was already initialized "
                    f"'{count}'."
                )
        components.update(values)
        self.size_in_bytes += _bytes_of(list(values.values()))
        if len(components) == count:
            del self.partial[key]
            complete = [components[index] for index in range(count)]
            self.size_in_bytes -= _bytes_of(complete)
            self.insert(key, complete)

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
            lambda: Area(self._capacity, self._memory_limit, len(self._dtypes)),
        )

    def _wait(self, ctx: OpKernelContext, area: Area, what: str) -> Cancellation:
        """Return the step's cancellation for a request that waits for `what` in the area."""
        return ctx.wait(lambda: f"{what} in staging area '{self._name}' ({area})")

    def _checked(self, values: list[Value]) -> list[Value]:
        """Return the components of an element, checked against number and types of the outputs."""
        if len(values) != len(self._dtypes):
            raise InvalidArgumentError(
                f"Mismatch stage/unstage: {len(values)} vs. {len(self._dtypes)}; both nodes need "
                "the same dtypes"
            )
        return self._of_types(values)

    def _of_types(self, values: list[Value]) -> list[Value]:
        """Return components of an element, checked against the types of the outputs."""
        for value, dtype in zip(values, self._dtypes, strict=False):
            if not has_dtype(value, dtype):
                raise InvalidArgumentError(
                    f"staging area '{self._name}' has a component of "
                    f"{as_dtype(dtype_of_value(value)).name} where the node returns {dtype.name}; "
                    "both nodes need the same dtypes"
                )
        return values


@kernel("Stage", async_=True, waits=True, effects=_STATE)
class StageKernel(_AreaKernel):
    """Add an element, waiting for room."""

    def __call__(self, ctx: OpKernelContext, values: list[Value], done: Done) -> None:
        """Call `done` when the element has been added."""
        area = self._area(ctx)
        stored = [keepable(value) for value in values]

        def put() -> tuple[Any] | None:
            if not area.has_room(stored):
                return None
            area.queue.append(stored)
            area.size_in_bytes += _bytes_of(stored)
            return (None,)

        area.submit(put, done, self._wait(ctx, area, "room"))


@kernel("Unstage", async_=True, waits=True, effects=_STATE)
class UnstageKernel(_AreaKernel):
    """Remove and return the oldest element, waiting for one."""

    def __call__(self, ctx: OpKernelContext, done: Done) -> None:
        """Call `done` with the element."""
        area = self._area(ctx)

        def take() -> tuple[Any] | None:
            if not area.queue:
                return None
            values = area.queue.pop(0)
            area.size_in_bytes -= _bytes_of(values)
            return (self._checked(values),)

        area.submit(take, done, self._wait(ctx, area, "an element"), is_take=True)


@kernel("StagePeek", async_=True, waits=True, host_memory=("index",), effects=_STATE)
class StagePeekKernel(_AreaKernel):
    """Return an element by position, waiting for it."""

    def __call__(self, ctx: OpKernelContext, index: Value, done: Done) -> None:
        """Call `done` with the element."""
        area = self._area(ctx)
        position = scalar_int("index", index)
        if position < 0:
            raise InvalidArgumentError(f"index of StagePeek must be >= 0, got {position}")

        def peek() -> tuple[Any] | None:
            return (self._checked(area.queue[position]),) if position < len(area.queue) else None

        wait = self._wait(ctx, area, f"element {position}")
        area.submit(peek, done, wait, is_take=True)


@kernel("StageSize", "MapSize", "OrderedMapSize", stateful=True, effects=_STATE)
class AreaSizeKernel(_AreaKernel):
    """Return the number of elements that can be taken."""

    def __call__(self, ctx: OpKernelContext) -> Value:
        """Return the number of elements."""
        return np.int32(self._area(ctx).count)


@kernel("MapIncompleteSize", "OrderedMapIncompleteSize", stateful=True, effects=_STATE)
class AreaIncompleteSizeKernel(_AreaKernel):
    """Return the number of incomplete elements."""

    def __call__(self, ctx: OpKernelContext) -> Value:
        """Return the number of incomplete elements."""
        return np.int32(len(self._area(ctx).partial))


@kernel("StageClear", "MapClear", "OrderedMapClear", stateful=True, effects=_STATE)
class AreaClearKernel(_AreaKernel):
    """Drop all elements."""

    def __call__(self, ctx: OpKernelContext) -> None:
        """Clear the area."""
        self._area(ctx).clear()


class _MapKernel(_AreaKernel):
    """Base of the kernels that access elements by key; checks component indices."""

    def _indices(self, area: Area, indices: Value, count: int | None = None) -> list[int]:
        if not indices.size:
            raise InvalidArgumentError("Indices are empty")
        if indices.size > area.component_count:  # some are out of bounds, or not ordered
            raise InvalidArgumentError(
                f"{indices.size} indices cannot be strictly ordered in '[0, "
                f"{area.component_count})'"
            )
        positions: list[int] = indices.ravel().tolist()
        if any(right <= left for left, right in pairwise(positions)):
            raise InvalidArgumentError(f"Indices are not strictly ordered: {positions}")
        if count is not None and len(positions) != count:
            raise InvalidArgumentError(
                f"expected one index per value, got {len(positions)} indices for {count} values"
            )
        for index in positions:
            if not 0 <= index < area.component_count:
                raise InvalidArgumentError(
                    f"Index '{index}' is out of bounds '[0, {area.component_count})'"
                )
        return positions

    def _output_indices(self, area: Area, indices: Value) -> list[int]:
        positions = self._indices(area, indices)
        if len(positions) > len(self._dtypes):
            raise InvalidArgumentError(
                f"output/indices size mismatch {len(self._dtypes)} vs. {len(positions)}"
            )
        return positions

    def _outputs(self, values: list[Value]) -> list[Value]:
        """Return components, and dead values for the outputs that have none."""
        return self._of_types(values) + [DEAD] * (len(self._dtypes) - len(values))


@kernel(
    "MapStage",
    "OrderedMapStage",
    async_=True,
    waits=True,
    host_memory=("key", "indices"),
    effects=_STATE,
)
class MapStageKernel(_MapKernel):
    """Add components of the element of a key, waiting for room."""

    def __call__(
        self, ctx: OpKernelContext, key: Value, indices: Value, values: list[Value], done: Done
    ) -> None:
        """Call `done` when the components have been added."""
        area = self._area(ctx)
        element_key = scalar_int("key", key)
        stored = [keepable(value) for value in values]
        component_indices = self._indices(area, indices, len(stored))
        is_partial = len(stored) < area.component_count

        def put() -> tuple[Any] | None:
            if not area.has_room(stored, is_partial=is_partial):
                return None
            if not is_partial:
                area.insert(element_key, stored)
            else:
                components = dict(zip(component_indices, stored, strict=True))
                area.insert_components(element_key, components, area.component_count)
            return (None,)

        area.submit(put, done, self._wait(ctx, area, "room"))


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
        self._is_peek = construction.op.endswith("Peek")

    def __call__(self, ctx: OpKernelContext, key: Value, indices: Value, done: Done) -> None:
        """Call `done` with the components."""
        area = self._area(ctx)
        element_key = scalar_int("key", key)
        component_indices = self._output_indices(area, indices)

        def take() -> tuple[Any] | None:
            if element_key not in area.elements:
                return None
            values = _taken(area, element_key, component_indices, is_peek=self._is_peek)
            return (self._outputs(values),)

        wait = self._wait(ctx, area, f"key {element_key}")
        area.submit(take, done, wait, is_take=True)


@kernel(
    *("MapUnstageNoKey", "OrderedMapUnstageNoKey"),
    async_=True,
    waits=True,
    host_memory=("key", "indices"),
    effects=_STATE,
)
class MapTakeAnyKernel(_MapKernel):
    """Take components of any element, or of the one with the smallest key if ordered."""

    def __call__(self, ctx: OpKernelContext, indices: Value, done: Done) -> None:
        """Call `done` with the key and the components."""
        area = self._area(ctx)
        component_indices = self._output_indices(area, indices)

        def take() -> tuple[Any] | None:
            if not area.elements:
                return None
            element_key = min(area.elements) if self._is_ordered else next(iter(area.elements))
            values = _taken(area, element_key, component_indices, is_peek=False)
            return ((np.int64(element_key), self._outputs(values)),)

        area.submit(take, done, self._wait(ctx, area, "an element"), is_take=True)


def _taken(area: Area, key: int, indices: list[int], *, is_peek: bool) -> list[Value]:
    """Return the requested components, and remove them unless the element is peeked at."""
    values = area.elements[key]
    if any(values[index] is None for index in indices):
        raise InvalidArgumentError(f"a component of key '{key}' has already been removed")
    chosen = [values[index] for index in indices]
    if not is_peek:
        area.size_in_bytes -= _bytes_of(chosen)
        area.elements[key] = [
            None if index in indices else value for index, value in enumerate(values)
        ]
        if all(value is None for value in area.elements[key]):
            del area.elements[key]
    return chosen
