"""Barrier kernels: collect the components of elements by key.

Semantics: tensorflow/core/kernels/barrier_ops.cc. Complete elements are taken in the order of the
insertions of their first components; those of one insertion in the order of TensorFlow's heap.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import CancelledError, InvalidArgumentError, OutOfRangeError
from graphmill.spi import kernel
from graphmill.spi.kernels import cancellable, has_dtype, shape_of_value
from graphmill_plugins.kernels._partial_shape import is_fully_defined
from graphmill_plugins.kernels._strings import string_array
from graphmill_plugins.kernels._support import scalar_int, shape_text, types_text
from graphmill_plugins.kernels.data_flow._prioritised import Prioritised
from graphmill_plugins.kernels.data_flow._staging import Store
from graphmill_plugins.kernels.data_flow.queue import reference
from graphmill_plugins.kernels.state.value import resource_key
from graphmill_plugins.kernels.unstack import rows, stacked

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.dtypes import DType
    from graphmill.spi import OpKernelConstruction, OpKernelContext, Shape, Value

    Done = Callable[..., None]

_STATE = ("state",)
_FIRST_INDEX = -(1 << 63)


class Barrier(Store):
    """Complete and incomplete elements by key.

    Attributes:
        name: for messages.
        dtypes, shapes: those of the components; shapes may be None.
        incomplete: by key the index of the element's first insertion, and its components by index.
        ready: the heap of complete elements.
        is_closed: whether new keys are rejected.
        rejects_all: whether all insertions are rejected.
    """

    def __init__(
        self, name: str, dtypes: tuple[DType, ...], shapes: tuple[Shape, ...] | None
    ) -> None:
        super().__init__()
        self.name, self.dtypes, self.shapes = name, dtypes, shapes
        self.incomplete: dict[bytes, tuple[int, dict[int, Value]]] = {}
        self.ready: list[Prioritised] = []
        self.is_closed = self.rejects_all = False
        self._next_index = _FIRST_INDEX

    def __str__(self) -> str:
        counts = f"{len(self.ready)} complete, {len(self.incomplete)} incomplete"
        return f"barrier '{self.name}' ({counts})"

    def insert(self, keys: list[bytes], component: int, values: list[Value]) -> None:
        """Add a component to the elements of some keys; under the lock.

        Raises:
            CancelledError: the barrier is closed, and a key is new; or the step was cancelled.
            InvalidArgumentError: an element has the component already.
        """
        self.check_open()
        components: dict[bytes, set[int]] = {}  # components per key, after the keys so far
        for key in cancellable(keys):  # nothing is changed yet
            parts = components.get(
                key, set(self.incomplete[key][1]) if key in self.incomplete else set()
            )
            if not parts and self.is_closed:
                raise CancelledError(
                    f"Barrier {self.name} is closed, but attempted to insert a brand new key: "
                    f"{key.decode(errors='replace')}. Pending inserts not cancelled, so existing "
                    f"keys may be completed."
                )
            if component in parts:
                raise InvalidArgumentError(
                    f"Key {key.decode(errors='replace')} already has a value for component "
                    f"{component} in barrier {self.name}"
                )
            # After an element is complete, its key may start another one.
            is_whole = len(parts) + 1 == len(self.dtypes)
            components[key] = set() if is_whole else parts | {component}
        has_new_key = False
        for key, value in zip(keys, values, strict=True):
            has_new_key |= key not in self.incomplete
            self._insert_one(key, component, value)
        self._next_index += has_new_key

    def check_open(self) -> None:
        """Check that components may still be added.

        Raises:
            CancelledError: the barrier was closed with its pending insertions cancelled.
        """
        if self.rejects_all:
            raise CancelledError(f"Barrier {self.name} is closed. Pending enqueues cancelled")

    def _insert_one(self, key: bytes, component: int, value: Value) -> None:
        if key not in self.incomplete:
            self.incomplete[key] = (self._next_index, {})
        index, parts = self.incomplete[key]
        parts[component] = value
        if len(parts) == len(self.dtypes):
            del self.incomplete[key]
            components = [parts[number] for number in range(len(self.dtypes))]
            heapq.heappush(self.ready, Prioritised.of(index, (index, key, components)))

    def take(
        self, count: int, *, allows_fewer: bool
    ) -> list[tuple[int, bytes, list[Value]]] | None:
        """Return `count` complete elements, or None if there are too few yet; under the lock.

        Raises:
            OutOfRangeError: the barrier is closed and has too few elements.
            InvalidArgumentError: the count is negative.
        """
        if self.is_closed:
            available = len(self.ready)
            if allows_fewer:
                count = min(count, available)
            else:
                available += len(self.incomplete)  # these may still be completed
            if available < max(count, 1):
                raise OutOfRangeError(
                    f"Barrier '{self.name}' is closed and has insufficient elements (requested "
                    f"{count}, total size {available})"
                )
        if count < 0:
            raise InvalidArgumentError(f"num_elements must not be negative, got {count}")
        if len(self.ready) < count:
            return None
        return [heapq.heappop(self.ready).element for _ in range(count)]


@kernel("Barrier", stateful=True, effects=_STATE)
class BarrierKernel:
    """Find or create a node's barrier, and return its handle."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        attrs = construction.attrs
        self._container, self._name = resource_key(construction)
        self._dtypes: tuple[DType, ...] = attrs["component_types"]
        self._shapes: tuple[Shape, ...] = tuple(attrs["shapes"])
        if len(self._shapes) != len(self._dtypes):
            raise InvalidArgumentError(
                "All of the component shapes must be specified: a barrier of "
                f"{len(self._dtypes)} components was given {len(self._shapes)} shapes"
            )
        if attrs["capacity"] != -1:
            raise InvalidArgumentError(
                f"Barrier only accepts capacity=-1, got {attrs['capacity']}; to limit it, feed it "
                "from a queue"
            )
        for shape in self._shapes:
            if not is_fully_defined(shape):
                raise InvalidArgumentError(
                    f"the shape {shape_text(shape)} of a barrier's component is not fully defined"
                )

    def __call__(self, ctx: OpKernelContext) -> Any:
        """Return the handle."""
        ctx.resources.lookup_or_create(
            self._container,
            self._name,
            Barrier,
            lambda: Barrier(self._name, self._dtypes, self._shapes),
        )
        return reference(self._container or ctx.resources.default_container, self._name)


def _barrier(ctx: OpKernelContext, handle: Any) -> Barrier:
    container, name = (part.decode() for part in handle.read().ravel().tolist())
    return ctx.resources.lookup(container, name, Barrier)


@kernel("BarrierInsertMany", stateful=True, host_memory=("keys",), effects=_STATE)
def barrier_insert_many(
    ctx: OpKernelContext, handle: Any, keys: Value, values: Value, component_index: int
) -> None:
    """Add a component to the elements of some keys."""
    barrier = _barrier(ctx, handle)
    barrier.check_open()
    if keys.ndim != 1 or values.ndim < 1 or len(keys) != len(values):
        raise InvalidArgumentError(
            f"expected a vector of keys and one value per key; got shapes {shape_text(keys.shape)} "
            f"and {shape_text(values.shape)}"
        )
    if not 0 <= component_index < len(barrier.dtypes):
        raise InvalidArgumentError(
            f"The component ID is out of range {component_index} > num_components"
            f" (= {len(barrier.dtypes)})"
        )
    dtype = barrier.dtypes[component_index]
    if not has_dtype(values, dtype):
        raise InvalidArgumentError(
            f"component {component_index} of barrier {barrier.name} is of {dtype.name}, got "
            f"{values.dtype}"
        )
    if barrier.shapes is not None and tuple(values.shape[1:]) != barrier.shapes[component_index]:
        raise InvalidArgumentError(
            f"Shape mismatch: component {component_index} of barrier {barrier.name} has shape "
            f"{shape_text(barrier.shapes[component_index])}, got {shape_text(values.shape[1:])}"
        )
    parts = rows(values, dtype)
    with barrier.lock:
        barrier.insert(keys.tolist(), component_index, parts)
    barrier.changed()


@kernel("BarrierTakeMany", async_=True, waits=True, host_memory=("num_elements",), effects=_STATE)
class BarrierTakeManyKernel:
    """Take complete elements, waiting for them."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        attrs = construction.attrs
        self._allows_fewer: bool = attrs["allow_small_batch"]
        self._dtypes: tuple[DType, ...] = tuple(attrs["component_types"])
        if attrs["timeout_ms"] != -1:
            raise InvalidArgumentError(
                "Timeout not supported yet: timeout_ms must be -1; set a timeout for the step"
            )

    def __call__(self, ctx: OpKernelContext, handle: Any, num_elements: Value, done: Done) -> None:
        """Call `done` with indices, keys and components."""
        barrier = _barrier(ctx, handle)
        if self._dtypes != tuple(barrier.dtypes):
            raise InvalidArgumentError(
                f"component_types are {types_text(self._dtypes)}, but the components of barrier "
                f"{barrier.name} are {types_text(barrier.dtypes)}"
            )
        count = scalar_int("num_elements", num_elements)

        def take() -> tuple[Any] | None:
            entries = barrier.take(count, allows_fewer=self._allows_fewer)
            return None if entries is None else (_stacked(ctx, barrier, entries),)

        barrier.submit(take, done, ctx.wait(lambda: f"{count} elements of {barrier}"), is_take=True)


def _stacked(
    ctx: OpKernelContext, barrier: Barrier, entries: list[tuple[int, bytes, list[Value]]]
) -> tuple[Any, ...]:
    indices = np.array([index for index, _, _ in entries], np.int64)
    keys = string_array([key for _, key, _ in entries])
    components = []
    for component, dtype in enumerate(barrier.dtypes):
        values = [parts[component] for _, _, parts in entries]
        if values:
            shape = shape_of_value(values[0], dtype)
        else:
            shape = tuple(barrier.shapes[component] or ()) if barrier.shapes else ()
        if any(shape_of_value(value, dtype) != shape for value in values):
            raise InvalidArgumentError(
                f"elements of barrier {barrier.name} differ in the shape of component {component}"
            )
        components.append(stacked(ctx.xp, values, shape, dtype))
    return indices, keys, components


@kernel("BarrierClose", stateful=True, effects=_STATE)
def barrier_close(ctx: OpKernelContext, handle: Any, cancel_pending_enqueues: bool) -> None:
    """Close a barrier to new keys; with `cancel_pending_enqueues` to all insertions."""
    barrier = _barrier(ctx, handle)
    with barrier.lock:
        if barrier.rejects_all or (barrier.is_closed and not cancel_pending_enqueues):
            raise CancelledError(f"Barrier '{barrier.name}' is already closed.")
        barrier.is_closed = True
        if cancel_pending_enqueues:
            barrier.rejects_all = True
            barrier.incomplete.clear()
    barrier.changed()


@kernel("BarrierReadySize", stateful=True, effects=_STATE)
def barrier_ready_size(ctx: OpKernelContext, handle: Any) -> Value:
    """Return the number of complete elements."""
    return np.int32(len(_barrier(ctx, handle).ready))


@kernel("BarrierIncompleteSize", stateful=True, effects=_STATE)
def barrier_incomplete_size(ctx: OpKernelContext, handle: Any) -> Value:
    """Return the number of incomplete elements."""
    return np.int32(len(_barrier(ctx, handle).incomplete))
