"""Kernels that create, close and inspect queues.

Semantics: tensorflow/core/kernels/queue_op.cc, queue_ops.cc. The handle of the v1 ops is a
reference to two strings (container, name) instead of a resource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import Ref, ResourceHandle, kernel
from graphmill_plugins.kernels._partial_shape import is_fully_defined
from graphmill_plugins.kernels._strings import string_array
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.data_flow._queue import Queue
from graphmill_plugins.kernels.data_flow._queue_kinds import (
    FifoQueue,
    PaddingFifoQueue,
    PriorityQueue,
    RandomShuffleQueue,
)
from graphmill_plugins.kernels.state.value import resource_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.dtypes import DType
    from graphmill.spi import OpKernelConstruction, OpKernelContext, Shape, Value

    Done = Callable[..., None]

_STATE = ("state",)


class _QueueKernel:
    """Find or create a node's queue, and return its handle."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        attrs = construction.attrs
        self._container, self._name = resource_key(construction)
        self._is_reference = construction.op_def.output_args[0].is_ref
        self._dtypes: tuple[DType, ...] = attrs["component_types"]
        self._shapes: tuple[Shape, ...] | None = tuple(attrs["shapes"]) or None
        self._capacity: int = attrs["capacity"]
        if self._shapes is not None and len(self._shapes) != len(self._dtypes):
            raise InvalidArgumentError(
                f"expected no shapes or {len(self._dtypes)}, one per component of the queue, got "
                f"{len(self._shapes)}"
            )

    def _make(self) -> Queue:
        raise NotImplementedError

    def __call__(self, ctx: OpKernelContext) -> Any:
        """Return the handle."""
        queue: Queue = ctx.resources.lookup_or_create(
            self._container,
            self._name,
            Queue,
            self._make,
        )
        self._check_same(queue, self._make())
        container = self._container or ctx.resources.default_container
        if not self._is_reference:
            return ResourceHandle(ctx.device.name, container, self._name, "Queue", queue)
        return reference(container, self._name)

    def _check_same(self, queue: Queue, requested: Queue) -> None:
        """Raise InvalidArgumentError unless a shared queue has the attrs of this node."""
        if type(queue) is not type(requested):
            raise InvalidArgumentError(f"Expected {queue.kind}, found {requested.kind}")
        for what in ("capacity", "dtypes", "shapes", "min_after_dequeue", "seeds"):
            has, expected = getattr(queue, what, None), getattr(requested, what, None)
            if has != expected:
                raise InvalidArgumentError(
                    f"Shared queue '{self._name}' has {what} {has} but requested {what} was "
                    f"{expected}; use different shared_name attrs for the two queues"
                )


def reference(container: str, name: str) -> Ref:
    """Return a v1 handle: a reference to the container and the name."""
    ref = Ref(dtypes.string, (2,), name)
    ref.value = string_array([container.encode(), name.encode()])
    return ref


def _check_defined(shapes: tuple[Shape, ...] | None) -> None:
    for shape in shapes or ():
        if not is_fully_defined(shape):
            raise InvalidArgumentError(
                f"the shape {shape_text(shape)} of a queue's component is not fully defined; use "
                "a PaddingFIFOQueue"
            )


@kernel("FIFOQueue", "FIFOQueueV2", stateful=True, effects=_STATE)
class FifoQueueKernel(_QueueKernel):
    """Return the handle of a first-in, first-out queue."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        super().__init__(construction)
        _check_defined(self._shapes)

    def _make(self) -> Queue:
        return FifoQueue(self._name, self._dtypes, self._shapes, self._capacity)


@kernel("PaddingFIFOQueue", "PaddingFIFOQueueV2", stateful=True, effects=_STATE)
class PaddingFifoQueueKernel(_QueueKernel):
    """Return the handle of a queue whose elements are padded with zeros in a batch."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        super().__init__(construction)
        if self._shapes is None or None in self._shapes:
            raise InvalidArgumentError(
                "a PaddingFIFOQueue needs a shape of known rank for each component; "
                f"got {[shape_text(shape) for shape in self._shapes or ()]}"
            )

    def _make(self) -> Queue:
        return PaddingFifoQueue(self._name, self._dtypes, self._shapes, self._capacity)


@kernel("PriorityQueue", "PriorityQueueV2", stateful=True, effects=_STATE)
class PriorityQueueKernel(_QueueKernel):
    """Return the handle of a queue ordered by priority, a scalar first component."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        super().__init__(construction)
        _check_defined(self._shapes)
        if len(self._shapes or ()) != len(self._dtypes):
            raise InvalidArgumentError(
                f"a PriorityQueue of {len(self._dtypes)} components needs a shape for each of them"
            )
        self._dtypes = (dtypes.int64, *self._dtypes)
        self._shapes = ((), *(self._shapes or ()))

    def _make(self) -> Queue:
        return PriorityQueue(self._name, self._dtypes, self._shapes, self._capacity)


@kernel("RandomShuffleQueue", "RandomShuffleQueueV2", stateful=True, effects=("rng", "state"))
class RandomShuffleQueueKernel(_QueueKernel):
    """Return the handle of a queue that returns its elements in random order."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        super().__init__(construction)
        _check_defined(self._shapes)
        attrs = construction.attrs
        self._min_after_dequeue: int = attrs["min_after_dequeue"]
        self._seeds: tuple[int, int] = attrs["seed"], attrs["seed2"]
        self._make()  # for its checks

    def _make(self) -> Queue:
        # A lazy import: most graphs have no random queues.
        from graphmill_plugins.kernels.random._stream import random_numbers

        return RandomShuffleQueue(
            self._name,
            self._dtypes,
            self._shapes,
            self._capacity,
            numbers=random_numbers(*self._seeds),
            min_after_dequeue=self._min_after_dequeue,
            seeds=self._seeds,
        )


@kernel("FakeQueue", stateful=True, effects=_STATE)
def fake_queue(ctx: OpKernelContext, resource: Any) -> Ref:
    """Return a v1 handle for a queue with a resource handle."""
    del ctx
    return reference(resource.container, resource.name)


def queue_of(ctx: OpKernelContext, handle: Any) -> Queue:
    """Return the queue of a handle of either kind.

    Raises:
        NotFoundError: there is none of that name.
        InvalidArgumentError: the handle is not that of a queue.
    """
    if type(handle) is ResourceHandle:
        queue: Queue = handle.expect(Queue)
        return queue
    names = handle.read() if isinstance(handle, Ref) else handle
    if names.size != 2:
        raise InvalidArgumentError(
            f"Queue handle must have two elements, but had shape: {shape_text(names.shape)}"
        )
    container, name = (part.decode() for part in names.ravel().tolist())
    return ctx.resources.lookup(container, name, Queue)


@kernel("QueueClose", "QueueCloseV2", async_=True, effects=_STATE)
def queue_close(
    ctx: OpKernelContext, handle: Any, cancel_pending_enqueues: bool, done: Done
) -> None:
    """Close a queue after its pending enqueues, or cancel them."""

    def closed(_elements: Any, error: BaseException | None) -> None:
        done(error=error) if error is not None else done()

    queue = queue_of(ctx, handle)
    wait = ctx.wait(lambda: f"earlier enqueues into {queue}")
    queue.close(closed, wait, cancel_pending=cancel_pending_enqueues)


@kernel("QueueIsClosed", "QueueIsClosedV2", stateful=True, effects=_STATE)
def queue_is_closed(ctx: OpKernelContext, handle: Any) -> Value:
    """Return whether a queue is closed."""
    return np.bool_(queue_of(ctx, handle).is_closed)


@kernel("QueueSize", "QueueSizeV2", stateful=True, effects=_STATE)
def queue_size(ctx: OpKernelContext, handle: Any) -> Value:
    """Return the number of elements of a queue."""
    return np.int32(queue_of(ctx, handle).size)
