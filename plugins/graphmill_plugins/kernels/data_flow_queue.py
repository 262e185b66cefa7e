"""Queue kernels: make queues, put tensors in, take them out, close.

Semantics: tensorflow/core/kernels/queue_op.cc, queue_ops.cc, queue_base.cc. Putting and taking are
asynchronous: while they wait for room or for elements, no thread does. The older ops hand a queue
on as a reference to two strings (container, name) instead of a resource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.runtime.kernel import kernel
from graphmill.runtime.variables import Ref, ResourceHandle
from graphmill_plugins.kernels import _queue
from graphmill_plugins.kernels._elements import rows, stacked, zeros
from graphmill_plugins.kernels._partial_shape import is_compatible, is_fully_defined
from graphmill_plugins.kernels._philox import blocks, seeded
from graphmill_plugins.kernels._queue import Dequeue, Enqueue, PaddingFifoQueue, Queue
from graphmill_plugins.kernels._strings import string_array
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.state_value import keepable, resource_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from graphmill.dtypes import DType
    from graphmill.runtime.kernel import OpKernelConstruction
    from graphmill.runtime.op_kernel_context import OpKernelContext
    from graphmill.typing import Shape, Value
    from graphmill_plugins.kernels._queue import Element

    Done = Callable[..., None]

_STATE = ("state",)


class _QueueKernel:
    """Find or make a node's queue, and hand on its handle."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        attrs = construction.attrs
        self._container, self._name = resource_key(construction)
        self._is_reference = construction.op_def.output_args[0].is_ref
        self._dtypes: tuple[DType, ...] = attrs["component_types"]
        self._shapes: tuple[Shape, ...] | None = tuple(attrs["shapes"]) or None
        self._capacity: int = attrs["capacity"]
        if self._shapes is not None and len(self._shapes) != len(self._dtypes):
            raise InvalidArgumentError(
                f"a queue of {len(self._dtypes)} components was given {len(self._shapes)} shapes; "
                "give one for each, or none"
            )

    def _make(self) -> Queue:
        raise NotImplementedError

    def __call__(self, ctx: OpKernelContext) -> Any:
        """Return the handle."""
        queue: Queue = ctx.resources.lookup_or_create(
            self._container,
            self._name,
            Queue,  # type: ignore[type-abstract]
            self._make,
        )
        self._check_same(queue, self._make())
        container = self._container or ctx.resources.default_container
        if not self._is_reference:
            return ResourceHandle(ctx.device.name, container, self._name, "Queue", queue)
        return _reference(container, self._name)

    def _check_same(self, queue: Queue, wanted: Queue) -> None:
        """Check that a queue found by name is one that this node could have made."""
        if type(queue) is not type(wanted):
            raise InvalidArgumentError(f"Expected {queue.kind}, found {wanted.kind}")
        for what in ("capacity", "dtypes", "shapes", "min_after_dequeue", "seeds"):
            has, asked = getattr(queue, what, None), getattr(wanted, what, None)
            if has != asked:
                raise InvalidArgumentError(
                    f"Shared queue '{self._name}' has {what} {has} but requested {what} was "
                    f"{asked}; give the two queues different shared_name attrs"
                )


def _reference(container: str, name: str) -> Ref:
    ref = Ref(dtypes.string, (2,), name)
    ref.value = string_array([container.encode(), name.encode()])
    return ref


def _check_defined(shapes: tuple[Shape, ...] | None) -> None:
    for shape in shapes or ():
        if not is_fully_defined(shape):
            raise InvalidArgumentError(
                f"the shape {shape_text(shape)} of a queue's component is not fully defined; a "
                "PaddingFIFOQueue takes such shapes"
            )


@kernel("FIFOQueue", "FIFOQueueV2", stateful=True, effects=_STATE)
class FifoQueueKernel(_QueueKernel):
    """Hand on a queue that gives its elements in the order in which they came."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        super().__init__(construction)
        _check_defined(self._shapes)

    def _make(self) -> Queue:
        return _queue.FifoQueue(self._name, self._dtypes, self._shapes, self._capacity)


@kernel("PaddingFIFOQueue", "PaddingFIFOQueueV2", stateful=True, effects=_STATE)
class PaddingFifoQueueKernel(_QueueKernel):
    """Hand on a queue whose elements may differ in size, and are padded with zeros in a batch."""

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
    """Hand on a queue of elements with a priority: a scalar, their first component."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        super().__init__(construction)
        _check_defined(self._shapes)
        self._dtypes = (dtypes.int64, *self._dtypes)
        self._shapes = ((), *(self._shapes or ()))

    def _make(self) -> Queue:
        return _queue.PriorityQueue(self._name, self._dtypes, self._shapes, self._capacity)


@kernel("RandomShuffleQueue", "RandomShuffleQueueV2", stateful=True, effects=("rng", "state"))
class RandomShuffleQueueKernel(_QueueKernel):
    """Hand on a queue that gives its elements in random order."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        super().__init__(construction)
        _check_defined(self._shapes)
        attrs = construction.attrs
        self._least: int = attrs["min_after_dequeue"]
        self._seeds: tuple[int, int] = attrs["seed"], attrs["seed2"]
        self._make()  # for its checks

    def _make(self) -> Queue:
        return _queue.RandomShuffleQueue(
            self._name,
            self._dtypes,
            self._shapes,
            self._capacity,
            numbers=_random_numbers(*self._seeds),
            min_after_dequeue=self._least,
            seeds=self._seeds,
        )


def _random_numbers(seed: int, seed2: int) -> Iterator[int]:
    """Yield random numbers of 32 bits, those of TensorFlow if a seed is given."""
    if not seed and not seed2:
        seed, seed2 = np.random.SeedSequence().generate_state(2, np.uint64).tolist()
    generator = seeded(seed, seed2)
    step = 64
    while True:
        yield from blocks(np, generator, np.arange(step, dtype=np.uint64)).ravel().tolist()
        generator = generator.skip(step)


@kernel("FakeQueue", stateful=True, effects=_STATE)
def fake_queue(ctx: OpKernelContext, resource: Any) -> Ref:
    """Return the older kind of handle for a queue given by the newer kind."""
    del ctx
    return _reference(resource.container, resource.name)


def queue_of(ctx: OpKernelContext, handle: Any) -> Queue:
    """Return the queue that either kind of handle points to.

    Raises:
        NotFoundError: there is none of that name.
        InvalidArgumentError: the handle is that of something else.
    """
    if type(handle) is ResourceHandle:
        found: Queue = handle.expect(Queue)
        return found
    names = handle.read() if isinstance(handle, Ref) else handle
    if names.size != 2:
        raise InvalidArgumentError(
            f"Queue handle must have two elements, but had shape: {shape_text(names.shape)}"
        )
    container, name = (part.decode() for part in names.ravel().tolist())
    return ctx.resources.lookup(container, name, Queue)  # type: ignore[type-abstract]


class _UserKernel:
    """What puts into queues or takes out of them: checks its types against the queue's."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        attrs = construction.attrs
        name = "Tcomponents" if "Tcomponents" in attrs else "component_types"
        self._dtypes: tuple[DType, ...] = attrs[name]
        self._op = construction.op
        if attrs["timeout_ms"] != -1:
            raise InvalidArgumentError(
                f"Timeout not supported yet: timeout_ms of {construction.op} must be -1, got "
                f"{attrs['timeout_ms']}; give the step a timeout instead"
            )

    def _queue(self, ctx: OpKernelContext, handle: Any) -> Queue:
        queue = queue_of(ctx, handle)
        if queue.dtypes != self._dtypes:
            raise InvalidArgumentError(
                f"{self._op} was made for components {_names(self._dtypes)}, the queue "
                f"'{queue.name}' has {_names(queue.dtypes)}"
            )
        return queue

    def _count(self, n: Value) -> int:
        if n.ndim:
            raise InvalidArgumentError(
                f"{self._op} needs a scalar number of elements, got shape {shape_text(n.shape)}"
            )
        count = int(n)
        if count < 0:
            raise InvalidArgumentError(f"{self._op} requested {count} < 0 elements")
        return count


def _names(types: Sequence[DType]) -> str:
    return ", ".join(dtype.name for dtype in types)


@kernel("QueueEnqueue", "QueueEnqueueV2", async_=True, effects=_STATE)
class EnqueueKernel(_UserKernel):
    """Put one element into a queue; wait for room."""

    def __call__(
        self, ctx: OpKernelContext, handle: Any, components: list[Value], done: Done
    ) -> None:
        """Call `done` when the element is in the queue."""
        queue = self._queue(ctx, handle)
        for index, (value, shape) in enumerate(zip(components, _shapes(queue), strict=True)):
            if not is_compatible(shape, value.shape):
                raise _shape_error(index, shape, value.shape)
        element = tuple(map(keepable, components))
        queue.submit(Enqueue([element], done), ctx.cancellation)


@kernel("QueueEnqueueMany", "QueueEnqueueManyV2", async_=True, effects=_STATE)
class EnqueueManyKernel(_UserKernel):
    """Put the rows of some tensors into a queue, one by one; wait for room."""

    def __call__(
        self, ctx: OpKernelContext, handle: Any, components: list[Value], done: Done
    ) -> None:
        """Call `done` when the last of them is in the queue."""
        queue = self._queue(ctx, handle)
        _check_batch(queue, components)
        # Each row is copied, so that one row which stays does not keep all.
        columns = [
            list(map(keepable, rows(value, dtype)))
            for value, dtype in zip(components, queue.dtypes, strict=True)
        ]
        elements = list(zip(*columns, strict=True))
        if elements:
            queue.submit(Enqueue(elements, done), ctx.cancellation)
        else:
            done()


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
        if not value.ndim or not is_compatible(shape, value.shape[1:]):
            raise _shape_error(index, None if shape is None else (-1, *shape), value.shape)
        if size is None:
            size = value.shape[0]
        if value.shape[0] != size:
            raise InvalidArgumentError(
                "All input tensors must have the same size in the 0th dimension. Component "
                f"{index} has {value.shape[0]}, and should have {size}"
            )


@kernel("QueueDequeue", "QueueDequeueV2", async_=True, effects=_STATE)
class DequeueKernel(_UserKernel):
    """Take one element from a queue; wait for one."""

    def __call__(self, ctx: OpKernelContext, handle: Any, done: Done) -> None:
        """Call `done` with the components."""

        def taken(elements: list[Element] | None, error: BaseException | None) -> None:
            if elements is None:
                done(error=error)
            else:
                done(list(elements[0]))

        self._queue(ctx, handle).submit(Dequeue(1, taken), ctx.cancellation)


@kernel(
    "QueueDequeueMany",
    "QueueDequeueManyV2",
    "QueueDequeueUpTo",
    "QueueDequeueUpToV2",
    async_=True,
    effects=_STATE,
)
class DequeueManyKernel(_UserKernel):
    """Take several elements from a queue as tensors with one more axis; wait for all of them.

    `QueueDequeueUpTo` takes fewer from a queue that is closed.
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
            else:
                done(_batch(queue, elements))

        if count:
            attempt = Dequeue(count, taken, allow_fewer=self._allow_fewer)
            queue.submit(attempt, ctx.cancellation)
        else:
            done(_batch(queue, []))


def _batch(queue: Queue, elements: list[Element]) -> list[Value]:
    """Return elements as one tensor for each component."""
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
    """Stack values of one rank, with zeros behind those that are smaller than others."""
    sizes = tuple(map(max, zip(*(value.shape for value in values), strict=True)))
    result = zeros(np, (len(values), *sizes), dtype)
    for index, value in enumerate(values):
        result[(index, *map(slice, value.shape))] = value
    return result


@kernel("QueueClose", "QueueCloseV2", async_=True, effects=_STATE)
def queue_close(
    ctx: OpKernelContext, handle: Any, cancel_pending_enqueues: bool, done: Done
) -> None:
    """Close a queue, after the enqueues that wait or cancelling them."""

    def closed(_elements: Any, error: BaseException | None) -> None:
        done(error=error) if error is not None else done()

    queue = queue_of(ctx, handle)
    queue.close(closed, ctx.cancellation, cancel_pending=cancel_pending_enqueues)


@kernel("QueueIsClosed", "QueueIsClosedV2", stateful=True, effects=_STATE)
def queue_is_closed(ctx: OpKernelContext, handle: Any) -> Value:
    """Return whether a queue is closed."""
    return np.bool_(queue_of(ctx, handle).is_closed)


@kernel("QueueSize", "QueueSizeV2", stateful=True, effects=_STATE)
def queue_size(ctx: OpKernelContext, handle: Any) -> Value:
    """Return the number of elements of a queue."""
    return np.int32(queue_of(ctx, handle).size)
