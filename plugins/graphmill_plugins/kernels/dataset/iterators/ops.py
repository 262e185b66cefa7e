"""Iterator kernels: create handles, start iterators and take elements.

Semantics: tensorflow/core/kernels/data/iterator_ops.cc. `IteratorGetNext` is asynchronous: elements
that need files or function calls are computed in a thread of the session's pool, and waiting for a
prefetched element blocks no thread.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphmill.dtypes import as_dtype
from graphmill.errors import (
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    OpError,
    OutOfRangeError,
    PermissionDeniedError,
)
from graphmill.spi import ResourceHandle
from graphmill.spi.executors import running
from graphmill.spi.kernels import dtype_of_value, shape_of_value
from graphmill.spi.process import call_when_dropped, fork_safe_lock, track_forks
from graphmill_plugins.kernels._partial_shape import is_compatible
from graphmill_plugins.kernels._strings import string_scalar
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.dataset.handles import Deleter, anonymous
from graphmill_plugins.kernels.dataset.iterators._iterator_handle import handle_text, named_handle
from graphmill_plugins.kernels.dataset.iterators._optional import Optional
from graphmill_plugins.kernels.dataset.pipeline.background_jobs import (
    INTERRUPTED_BY_FORK,
    Prefetching,
    Waiter,
)
from graphmill_plugins.kernels.dataset.pipeline.dataset import (
    CapturedFunction,
    Dataset,
    Scope,
    dataset_kernel,
    dataset_of,
    structure,
)
from graphmill_plugins.kernels.state.value import resource_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import (
        CancellationManager,
        OpKernelConstruction,
        OpKernelContext,
        Shape,
        Value,
    )
    from graphmill.spi.kernels import ThreadPool
    from graphmill_plugins.kernels.dataset.pipeline.dataset import DrawnSeeds, Element, Elements

    Done = Callable[..., None]
    Structure = tuple[Sequence[DType], Sequence[Shape]]

_STATE = ("state",)


class IteratorPosition(NamedTuple):
    """The position of an iterator.

    Attributes:
        num_taken: the number of elements and errors that were taken.
        seeds: those that it has drawn; a restored iterator uses them and draws no new ones.
    """

    num_taken: int
    seeds: Sequence[DrawnSeeds]


class IteratorResource:
    """An iterator from which steps take elements; `start` gives it a dataset.

    Threads: `_lock` is held while an element is taken and counted; `start` replaces the dataset,
    its iterator and its scope in one assignment.

    Attributes:
        dtypes, shapes: the declared types and shapes of its elements; empty without a declaration.
    """

    def __init__(self, types: Sequence[DType], shapes: Sequence[Shape], name: str) -> None:
        self.dtypes, self.shapes = tuple(types), tuple(shapes)
        self._name = name
        self._lock = fork_safe_lock()
        self._running: tuple[Dataset, Elements, Scope] | None = None
        self._finalizer: weakref.finalize[..., Any] | None = None
        self._is_taking = self._was_interrupted = False
        self._num_taken = 0
        track_forks(self)

    def after_fork_in_child(self) -> None:
        """Refuse to continue if another thread was taking an element."""
        self._was_interrupted, self._is_taking = self._was_interrupted or self._is_taking, False

    def start(self, dataset: Dataset, ctx: OpKernelContext) -> None:
        """Start iterating over a dataset.

        Raises:
            InvalidArgumentError: its elements do not have the declared types and shapes.
        """
        if self.dtypes:
            check_structure(self.dtypes, self.shapes, dataset.dtypes, dataset.shapes)
        self._run(dataset, Scope(ctx))

    def position(self) -> IteratorPosition:
        """Return the position of the iterator.

        Raises:
            FailedPreconditionError: nothing was started.
        """
        _, elements, scope = self.running()
        taken = elements.num_taken if isinstance(elements, Prefetching) else self._num_taken
        return IteratorPosition(taken, scope.drawn_seeds())

    def restore(self, position: IteratorPosition, ctx: OpKernelContext) -> None:
        """Start again on the same dataset, and take elements up to a position.

        Raises:
            FailedPreconditionError: nothing was started.
            PermissionDeniedError: an element has an effect that is not allowed.
        """
        dataset, _, _ = self.running()
        self._run(dataset, Scope(ctx, position.seeds))
        for _ in range(position.num_taken):
            try:
                if self.take(ctx.cancellation) is None:
                    return
            except (CancelledError, PermissionDeniedError):
                raise
            except OpError:
                continue  # the element failed, or its error was ignored, the first time too

    def _run(self, dataset: Dataset, scope: Scope) -> None:
        scope.root = dataset
        elements = dataset.iterate(scope)
        previous, self._running = self._running, (dataset, elements, scope)
        self._was_interrupted, self._num_taken = False, 0
        if previous is not None:
            previous[2].close()
        if self._finalizer is not None:
            self._finalizer.detach()
        self._finalizer = call_when_dropped(self, scope.close, at_exit=False)

    def close(self) -> None:
        """Stop the iterator's background work."""
        previous, self._running = self._running, None
        if previous is not None:
            previous[2].close()

    def running(self) -> tuple[Dataset, Elements, Scope]:
        """Return the dataset, its iterator and its scope.

        Raises:
            FailedPreconditionError: nothing was started.
        """
        running = self._running
        if running is None:
            raise FailedPreconditionError(
                "GetNext() failed because the iterator has not been initialized. Ensure that you "
                f"have run the initializer operation for this iterator ({self._name}) before "
                "getting the next element."
            )
        if self._was_interrupted:
            raise FailedPreconditionError(INTERRUPTED_BY_FORK)
        return running

    def take(self, step: CancellationManager | None) -> Element | None:
        """Return the next element, None at the end; block until it is available."""
        _, elements, scope = self.running()
        with self._lock:
            self._is_taking = True
            try:
                return scope.take_for(elements, step)
            finally:
                self._is_taking = False
                self._num_taken += 1

    def take_async(
        self, ctx: OpKernelContext, done: Callable[[Element | None, BaseException | None], None]
    ) -> None:
        """Call `done` with the next element (None at the end) or an error, now or later."""
        dataset, elements, _ = self.running()
        pool = ctx.args.runner.pool
        if not dataset.may_wait or pool is None:
            done(self.take(ctx.cancellation if dataset.may_wait else None), None)
        elif isinstance(elements, Prefetching):
            elements.next_async(done, ctx.wait(self._awaited))
        else:
            self._take_in_pool(pool, ctx, done)

    def _awaited(self) -> str:
        return f"the next element of iterator '{self._name}'"

    def _take_in_pool(self, pool: ThreadPool, ctx: OpKernelContext, done: Any) -> None:
        waiter, step = Waiter(done), ctx.cancellation

        def take() -> None:
            np.seterr(all="ignore")
            try:
                with running(step):
                    element = self.take(step)
            except BaseException as error:  # noqa: BLE001 - raised in the step's thread
                waiter(None, error)
            else:
                waiter(element, None)

        pool.schedule(take)
        waiter.watch(
            ctx.wait(self._awaited), lambda: waiter(None, CancelledError("Iterator was cancelled"))
        )


def check_structure(
    types: Sequence[DType],
    shapes: Sequence[Shape],
    given_types: Sequence[DType],
    given_shapes: Sequence[Shape],
) -> None:
    """Check that elements have the expected types and shapes.

    Raises:
        InvalidArgumentError: they have others.
    """
    if tuple(types) != tuple(given_types):
        raise InvalidArgumentError(
            f"Number or types of components do not match: expected {_type_names(types)} types but "
            f"got {_type_names(given_types)}."
        )
    for expected, shape in zip(shapes, given_shapes, strict=False):
        if not is_compatible(expected, shape):
            raise InvalidArgumentError(
                f"Incompatible shapes: expected {shape_text(expected)} but got {shape_text(shape)}."
            )


def _type_names(types: Sequence[DType]) -> str:
    return "[" + ", ".join(dtype.name for dtype in types) + "]"


class _HandleKernel:
    """Find or create a node's resource, and return its handle."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        attrs = construction.attrs
        self._container, self._name = resource_key(construction)
        self._types: tuple[DType, ...] = attrs.get("output_types", ())
        self._shapes: tuple[Shape, ...] = attrs.get("output_shapes", ())

    def _find(self, ctx: OpKernelContext) -> ResourceHandle:
        def make() -> IteratorResource:
            return IteratorResource(self._types, self._shapes, self._name)

        resource = ctx.resources.lookup_or_create(
            self._container, self._name, IteratorResource, make
        )
        check_structure(self._types, self._shapes, resource.dtypes, resource.shapes)
        container = self._container or ctx.resources.default_container
        return ResourceHandle(ctx.device.name, container, self._name, "Iterator", resource)


@dataset_kernel("Iterator", "IteratorV2", effects=_STATE)
class IteratorKernel(_HandleKernel):
    """Return an iterator that has not been started."""

    def __call__(self, ctx: OpKernelContext) -> ResourceHandle:
        """Return the handle."""
        return self._find(ctx)


@dataset_kernel("OneShotIterator", effects=_STATE)
class OneShotIteratorKernel(_HandleKernel):
    """Return an iterator over the dataset that a function returns, started once."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        super().__init__(construction)
        if construction.attr("shared_name"):
            raise InvalidArgumentError(
                "OneShotIterator does not support the 'shared_name' attr: each node has its own; "
                "use IteratorV2 to share one"
            )
        self._factory = construction.attrs["dataset_factory"]
        self._lock = fork_safe_lock()

    def __call__(self, ctx: OpKernelContext) -> ResourceHandle:
        """Return the handle."""
        handle = self._find(ctx)
        resource: IteratorResource = handle.resource
        with self._lock:
            if resource._running is None:  # noqa: SLF001 - a class of this module
                dataset = CapturedFunction(ctx, self._factory).dataset(Scope(ctx), ())
                resource.start(dataset, ctx)
        return handle


@dataset_kernel("AnonymousIterator", "AnonymousIteratorV3", effects=_STATE)
def anonymous_iterator(
    ctx: OpKernelContext, output_types: Sequence[Any], output_shapes: Sequence[Shape]
) -> ResourceHandle:
    """Create an iterator; return its handle."""
    resource = IteratorResource(*structure(output_types, output_shapes), ctx.node_name)
    handle = anonymous(ctx, resource, "AnonymousIterator")
    _register_anonymous(ctx, handle)
    return handle


@dataset_kernel("AnonymousIteratorV2", effects=_STATE)
def anonymous_iterator_v2(
    ctx: OpKernelContext, output_types: Sequence[Any], output_shapes: Sequence[Shape]
) -> tuple[ResourceHandle, Deleter]:
    """Create an iterator; return its handle and its deleter."""
    return anonymous_iterator(ctx, output_types, output_shapes), Deleter()


class _AnonymousIterators:
    """A registry of anonymous iterators by string handle."""

    def __init__(self) -> None:
        self.by_name: weakref.WeakValueDictionary[str, IteratorResource] = (
            weakref.WeakValueDictionary()
        )


def _register_anonymous(ctx: OpKernelContext, handle: ResourceHandle) -> None:
    table = ctx.resources.lookup_or_create(
        "", "_anonymous_iterators", _AnonymousIterators, _AnonymousIterators
    )
    table.by_name[handle.name] = handle.resource


@dataset_kernel("DeleteIterator", effects=_STATE)
def delete_iterator(ctx: OpKernelContext, handle: Any, deleter: Any) -> None:
    """Delete an iterator."""
    del ctx, deleter
    iterator_of(handle).close()
    handle.resource = None


def iterator_of(handle: Any) -> IteratorResource:
    """Return the iterator of a handle."""
    resource: IteratorResource = handle.expect(IteratorResource)
    return resource


@dataset_kernel("MakeIterator", effects=_STATE)
def make_iterator(ctx: OpKernelContext, dataset: Value, iterator: Any) -> None:
    """Start an iterator on a dataset."""
    iterator_of(iterator).start(dataset_of(dataset), ctx)


@dataset_kernel("IteratorGetNext", effects=_STATE, async_=True, waits=True)
def iterator_get_next(
    ctx: OpKernelContext,
    iterator: Any,
    output_types: Sequence[Any],
    output_shapes: Sequence[Shape],
    done: Done,
) -> None:
    """Return the next element."""
    expected = structure(output_types, output_shapes)

    def deliver(element: Element | None, error: BaseException | None) -> None:
        if error is None:
            error = element_error(element, *expected)
        if error is not None:
            done(error=error)
        else:
            done(list(element or ()))

    iterator_of(iterator).take_async(ctx, deliver)


@dataset_kernel("IteratorGetNextSync", effects=_STATE, waits=True)
def iterator_get_next_sync(
    ctx: OpKernelContext,
    iterator: Any,
    output_types: Sequence[Any],
    output_shapes: Sequence[Shape],
) -> list[Value]:
    """Return the next element, computed in the thread of the step."""
    element = iterator_of(iterator).take(ctx.cancellation)
    error = element_error(element, *structure(output_types, output_shapes))
    if error is not None:
        raise error
    return list(element or ())


def element_error(
    element: Element | None, types: Sequence[DType], shapes: Sequence[Shape]
) -> BaseException | None:
    """Return the error of the end or of an element of other types or shapes, else None."""
    if element is None:
        return OutOfRangeError("End of sequence")
    for what, expected in (("types", types), ("shapes", shapes)):
        if len(element) != len(expected):
            return InvalidArgumentError(
                f"Number of components does not match: expected {len(expected)} {what} but got "
                f"{len(element)}."
            )
    for index, (value, dtype, shape) in enumerate(zip(element, types, shapes, strict=True)):
        is_other = dtype_of_value(value) != dtype.as_numpy_dtype
        if is_other and (dtype.kind not in "sh" or isinstance(value, (np.ndarray, np.generic))):
            return InvalidArgumentError(
                f"Data type mismatch at component {index}: expected {dtype.name} but got "
                f"{as_dtype(dtype_of_value(value)).name}."
            )
        actual = shape_of_value(value, dtype)
        if not is_compatible(shape, actual):
            return InvalidArgumentError(
                f"Incompatible shapes at component {index}: expected {shape_text(shape)} but got "
                f"{shape_text(actual)}."
            )
    return None


@dataset_kernel("IteratorGetNextAsOptional", effects=_STATE, async_=True, waits=True)
def iterator_get_next_as_optional(
    ctx: OpKernelContext,
    iterator: Any,
    output_types: Sequence[Any],
    output_shapes: Sequence[Shape],
    done: Done,
) -> None:
    """Return the next element as an optional, empty at the end."""
    expected = structure(output_types, output_shapes)

    def deliver(element: Element | None, error: BaseException | None) -> None:
        if error is None and element is not None:
            error = element_error(element, *expected)
        if error is not None:
            done(error=error)
        else:
            done(Optional(element, expected[0]))

    iterator_of(iterator).take_async(ctx, deliver)


@dataset_kernel("IteratorToStringHandle", effects=_STATE)
def iterator_to_string_handle(ctx: OpKernelContext, handle: Any) -> Value:
    """Return a string handle by which another step finds the iterator."""
    del ctx
    iterator_of(handle)
    return handle_text(handle)


@dataset_kernel("IteratorFromStringHandle", "IteratorFromStringHandleV2", effects=_STATE)
def iterator_from_string_handle(
    ctx: OpKernelContext,
    string_handle: Value,
    output_types: Sequence[Any],
    output_shapes: Sequence[Shape],
) -> ResourceHandle:
    """Return the handle of the iterator that a string names."""
    message = named_handle(string_handle)
    table = ctx.resources.find("", "_anonymous_iterators", _AnonymousIterators)
    iterator = None if table is None else table.by_name.get(message.name)
    if iterator is None:
        iterator = ctx.resources.lookup(message.container, message.name, IteratorResource)
    if output_types:
        types, shapes = structure(output_types, output_shapes)
        check_structure(types, shapes, iterator.dtypes, iterator.shapes)
    return ResourceHandle(
        ctx.device.name, message.container, message.name, message.maybe_type_name, iterator
    )


@dataset_kernel("IteratorGetDevice", "ExperimentalIteratorGetDevice", effects=_STATE)
def iterator_get_device(ctx: OpKernelContext, handle: Any) -> Value:
    """Return the name of an iterator's device."""
    del ctx
    return string_scalar(handle.device.encode())
