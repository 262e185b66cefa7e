"""Enqueue and dequeue kernels of queues.

Semantics: tensorflow/core/kernels/queue_ops.cc, queue_base.cc. They are asynchronous: waiting for
room or for elements blocks no thread.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.errors import InvalidArgumentError, OpError
from graphmill.spi import kernel
from graphmill.spi.kernels import NOT_NOW, shape_of_value
from graphmill_plugins.kernels._partial_shape import is_compatible, is_fully_defined
from graphmill_plugins.kernels._support import check_size, shape_text, types_text
from graphmill_plugins.kernels.data_flow._queue import Dequeue, Enqueue
from graphmill_plugins.kernels.data_flow.queue import queue_of
from graphmill_plugins.kernels.state.value import keepable
from graphmill_plugins.kernels.unstack import copied_rows, stacked, zeros

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import OpKernelConstruction, OpKernelContext, Shape, Value
    from graphmill_plugins.kernels.data_flow._queue import Attempt, Element, Queue

    Done = Callable[..., None]

_STATE = ("state",)


class _TransferKernel:
    """Base of the kernels that enqueue or dequeue; checks types against the queue's."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        attrs = construction.attrs
        name = "Tcomponents" if "Tcomponents" in attrs else "component_types"
        self._dtypes: tuple[DType, ...] = attrs[name]
        self._op = construction.op
        if attrs["timeout_ms"] != -1:
            raise InvalidArgumentError(
                f"Timeout not supported yet: timeout_ms of {construction.op} must be -1, got "
                f"{attrs['timeout_ms']}; set a timeout for the step instead"
            )

    def _queue(self, ctx: OpKernelContext, handle: Any) -> Queue:
        queue = queue_of(ctx, handle)
        if queue.dtypes != self._dtypes:
            raise InvalidArgumentError(
                f"{self._op} expects components of types {types_text(self._dtypes)}, but the queue "
                f"'{queue.name}' has {types_text(queue.dtypes)}"
            )
        return queue

    def _count(self, n: Value) -> int:
        if n.size != 1:
            raise InvalidArgumentError(
                f"{self._op} expects n to be a scalar, got shape {shape_text(n.shape)}"
            )
        count = int(n.item())
        if count < 0:
            raise InvalidArgumentError(f"{self._op} requested {count} < 0 elements")
        return count


def _submit(ctx: OpKernelContext, queue: Queue, attempt: Attempt) -> None:
    queue.submit(attempt, ctx.wait(partial(attempt.awaited, queue)))


@kernel("QueueEnqueue", "QueueEnqueueV2", async_=True, waits=True, effects=_STATE)
class EnqueueKernel(_TransferKernel):
    """Add an element to a queue, waiting for room."""

    def try_now(self, ctx: OpKernelContext, handle: Any, components: list[Value]) -> Any:
        """Add the element if there is room, else return `NOT_NOW`."""
        queue = self._queue(ctx, handle)
        return () if queue.put_now(self._element(queue, components)) else NOT_NOW

    def __call__(
        self, ctx: OpKernelContext, handle: Any, components: list[Value], done: Done
    ) -> None:
        """Call `done` when the element is in the queue."""
        queue = self._queue(ctx, handle)
        element = self._element(queue, components)
        if queue.put_now(element):
            done()
        else:
            _submit(ctx, queue, Enqueue([element], done))

    @staticmethod
    def _element(queue: Queue, components: list[Value]) -> Element:
        if queue.shapes is not None:
            checked = zip(components, queue.shapes, queue.dtypes, strict=True)
            for index, (value, shape, dtype) in enumerate(checked):
                actual = shape_of_value(value, dtype)
                if not is_compatible(shape, actual):
                    raise _shape_error(index, shape, actual)
        return tuple(map(keepable, components))


@kernel("QueueEnqueueMany", "QueueEnqueueManyV2", async_=True, waits=True, effects=_STATE)
class EnqueueManyKernel(_TransferKernel):
    """Add the rows of tensors to a queue one by one, waiting for room."""

    def __call__(
        self, ctx: OpKernelContext, handle: Any, components: list[Value], done: Done
    ) -> None:
        """Call `done` when the last row is in the queue."""
        queue = self._queue(ctx, handle)
        _check_batch(queue, components)
        columns = [
            copied_rows(value, dtype) for value, dtype in zip(components, queue.dtypes, strict=True)
        ]
        elements = list(zip(*columns, strict=True))
        if not elements or queue.put_now(*elements):
            done()
        else:
            _submit(ctx, queue, Enqueue(elements, done))


def _shapes(queue: Queue) -> Sequence[Shape]:
    return queue.shapes or (None,) * len(queue.dtypes)


def _shape_error(index: int, expected: Shape, shape: Sequence[int]) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"Shape mismatch in tuple component {index}. Expected {shape_text(expected)}, got "
        f"{shape_text(shape)}"
    )


def _check_batch(queue: Queue, components: list[Value]) -> None:
    size = None
    for index, (value, shape) in enumerate(zip(components, _shapes(queue), strict=True)):
        actual = shape_of_value(value, queue.dtypes[index])
        if not actual or not is_compatible(shape, actual[1:]):
            raise _shape_error(index, None if shape is None else (-1, *shape), actual)
        if size is None:
            size = actual[0]
        if actual[0] != size:
            raise InvalidArgumentError(
                "All input tensors must have the same size in the 0th dimension. Component "
                f"{index} has {actual[0]}, and should have {size}"
            )


@kernel("QueueDequeue", "QueueDequeueV2", async_=True, waits=True, effects=_STATE)
class DequeueKernel(_TransferKernel):
    """Take an element from a queue, waiting for one."""

    def try_now(self, ctx: OpKernelContext, handle: Any) -> Any:
        """Return the components if there is an element, else `NOT_NOW`."""
        element = self._queue(ctx, handle).take_now()
        return NOT_NOW if element is None else element

    def __call__(self, ctx: OpKernelContext, handle: Any, done: Done) -> None:
        """Call `done` with the components."""
        queue = self._queue(ctx, handle)
        element = queue.take_now()
        if element is not None:
            done(list(element))
            return

        def taken(elements: list[Element] | None, error: BaseException | None) -> None:
            if elements is None:
                done(error=error)
            else:
                done(list(elements[0]))

        _submit(ctx, queue, Dequeue(1, taken))


@kernel(
    "QueueDequeueMany",
    "QueueDequeueManyV2",
    "QueueDequeueUpTo",
    "QueueDequeueUpToV2",
    async_=True,
    waits=True,
    effects=_STATE,
)
class DequeueManyKernel(_TransferKernel):
    """Take elements from a queue as tensors with a batch axis, waiting for all of them.

    `QueueDequeueUpTo` may take fewer from a closed queue.
    """

    def __init__(self, construction: OpKernelConstruction) -> None:
        super().__init__(construction)
        self._allow_fewer = "UpTo" in construction.op

    def __call__(self, ctx: OpKernelContext, handle: Any, n: Value, done: Done) -> None:
        """Call `done` with the components."""
        queue, count = self._queue(ctx, handle), self._count(n)
        if queue.shapes is None:
            raise InvalidArgumentError(
                f"{queue.kind}'s DequeueMany and DequeueUpTo require the components to have "
                "specified shapes."
            )

        def taken(elements: list[Element] | None, error: BaseException | None) -> None:
            if elements is None:
                done(error=error)
                return
            try:
                values = _batch(queue, elements)
            except OpError as failure:  # the caller is a step that enqueues
                done(error=failure)
            else:
                done(values)

        elements = queue.take_many_now(count) if count else []
        if elements is None:
            _submit(ctx, queue, Dequeue(count, taken, allow_fewer=self._allow_fewer))
        else:
            done(_batch(queue, elements))


def _batch(queue: Queue, elements: list[Element]) -> list[Value]:
    """Stack elements into one tensor per component.

    Raises:
        ResourceExhaustedError: padded, they are larger than the memory budget. They are lost, as
            they are in TensorFlow when memory runs out.
    """
    shapes = _shapes(queue)
    if not elements:
        return [
            zeros(np, (0, *(max(size, 0) for size in shape or ())), dtype)
            for shape, dtype in zip(shapes, queue.dtypes, strict=True)
        ]
    columns = zip(zip(*elements, strict=True), shapes, queue.dtypes, strict=True)
    return [
        stacked(np, column, shape, dtype)  # type: ignore[arg-type]
        if is_fully_defined(shape)
        else _padded(column, dtype)
        for column, shape, dtype in columns
    ]


def _padded(values: Sequence[Value], dtype: DType) -> Value:
    """Stack values of equal rank, padded with zeros to the largest sizes."""
    if values[0].ndim == 1:  # the loop takes half as long as the general one
        result = _blank_batch(values, (max(map(len, values)),), dtype)
        for row, value in zip(result, values, strict=True):
            row[: len(value)] = value
        return result
    sizes = tuple(map(max, zip(*(value.shape for value in values), strict=True)))
    result = _blank_batch(values, sizes, dtype)
    for index, value in enumerate(values):
        result[(index, *map(slice, value.shape))] = value
    return result


def _blank_batch(values: Sequence[Value], sizes: tuple[int, ...], dtype: DType) -> Value:
    """Return zeros of `sizes` for each value, if they are within the memory budget."""
    shape = (len(values), *sizes)
    check_size(shape, "the padded batch", itemsize=values[0].itemsize)
    return zeros(np, shape, dtype)
