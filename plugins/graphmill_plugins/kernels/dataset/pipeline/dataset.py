"""`Dataset`, the base class of all datasets, and `Scope`, the context of one iteration.

Semantics: tensorflow/core/framework/dataset.h. A dataset is an immutable value (a variant). An
iterator outlives the step that created it, so its scope holds everything that it needs of the
session. After an element that failed, an iterator continues with the next one; a generator could
not, so iterators are classes here.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from abc import ABC, abstractmethod
from array import array
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from graphmill import dtypes
from graphmill.errors import (
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    OutOfRangeError,
    UnimplementedError,
)
from graphmill.spi import CancellationManager, ExecutorArgs, StepRunner, kernel
from graphmill.spi.executors import running
from graphmill.spi.kernels import StepContainer, dtype_of_value, has_dtype
from graphmill.spi.process import fork_safe_lock
from graphmill_plugins.kernels._device_copies import to_device, to_host

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import OpKernelContext, Shape, Value
    from graphmill.spi.files import Broker
    from graphmill.spi.kernels import ThreadPool

    Element = tuple[Value, ...]
    """One element: a value for each component."""
    DrawnSeeds = tuple[Sequence[int], int]
    """The seeds that an iteration has drawn from a generator, and the generator's position."""
    Elements = Iterator[Element]

_MAX_WAIT = 1e9
"""The longest single wait of a thread in seconds; platforms limit it."""
INFINITE = -1
UNKNOWN = -2

_step_ids = itertools.count(-1, -1)
_DELETED = "the iterator was deleted, or its session closed"


class Scope:
    """The state that all iterators of one iteration through a pipeline share.

    Threads: `_step` is set by the thread that takes an element, and applies to that thread only;
    `_lock` guards `_own_runtimes` and `_seeds`; all else is set once.

    Attributes:
        functions: the function runtime of the session.
        pool: the session's thread pool, for background work; None if it has none.
        cancellation: cancelled with the session, and when the iterator is dropped.
        root: the dataset whose elements the iteration takes; None before it starts.
    """

    root: Dataset | None = None

    def __init__(self, ctx: OpKernelContext, seeds: Sequence[DrawnSeeds] = ()) -> None:
        """Create the state of a new iteration.

        Args:
            ctx: the context of the kernel that starts the iteration.
            seeds: `drawn_seeds` of an iteration that this one repeats.
        """
        self.functions = ctx.functions
        self.pool: ThreadPool | None = ctx.args.runner.pool
        self.cancellation = CancellationManager(ctx.functions.closing)
        self._lock = fork_safe_lock()
        self._own_runtimes: dict[Any, Any] = {}
        self._seeds: dict[Any, array[int]] = {}
        self._earlier_seeds = seeds
        self._device = ctx.device
        self._step: tuple[int, CancellationManager | None] = (0, None)

    def close(self) -> None:
        """Stop the background work of the iteration; idempotent."""
        self.cancellation.start_cancel(CancelledError("the iterator was deleted"))
        self.cancellation.close()
        with self._lock:
            runtimes = list(self._own_runtimes.values())
            self._own_runtimes.clear()
        for runtime in runtimes:
            runtime.close()

    def next_seeds(self, generator: Any) -> tuple[int, int]:
        """Return the next two seeds of a generator whose seeds change.

        If this iteration repeats another, the seeds of that one come first, and then those that
        the generator would have drawn after them.
        """
        with self._lock:
            drawn = self._seeds.setdefault(generator, array("q"))
            number, count = list(self._seeds).index(generator), len(drawn)
            known: Sequence[int] = ()
            if number < len(self._earlier_seeds):
                known, position = self._earlier_seeds[number]
                if not count:
                    generator.seek(position)
            drawn.extend(known[count : count + 2] or generator.draw())
            return drawn[-2], drawn[-1]

    def drawn_seeds(self) -> list[DrawnSeeds]:
        """Return the seeds that this iteration has drawn from each generator, and its position."""
        with self._lock:
            return [(drawn[:], generator.num_drawn) for generator, drawn in self._seeds.items()]

    def take_for(self, elements: Elements, step: CancellationManager | None) -> Element | None:
        """Return the next element, None at the end; cancelling `step` cancels its calls."""
        previous, self._step = self._step, (threading.get_ident(), step)
        try:
            return next(elements, None)
        finally:
            self._step = previous

    def call(self, function: CapturedFunction, args: Sequence[Value]) -> list[Value]:
        """Call a function with arguments followed by its captured values; block until it returns.

        Elements are in host memory; the function runs on the device of its dataset's node.
        """
        cancellation = self._step_cancellation()
        if self.cancellation.is_cancelled:
            raise CancelledError(_DELETED)
        container = StepContainer(next(_step_ids))
        call = ExecutorArgs(
            container.step_id,
            None,  # type: ignore[arg-type]  # each call has its own
            runner=StepRunner(None),
            cancellation_manager=cancellation or self.cancellation,
            step_container=container,
        )
        context = _CallContext(call)
        inputs = [*args, *function.captured]
        if not function.was_called:
            function.check(inputs)
        functions, handle = self._runtime_of(function)
        device = functions.device
        try:
            with running(call):
                if device.is_host_memory:
                    results: list[Value] = functions.run(handle, inputs, context)
                else:
                    inputs = [to_device(value, device) for value in inputs]
                    results = functions.run(handle, inputs, context)
                    results = [to_host(value, device) for value in results]
        finally:
            call.close()
            if container.is_used:
                self._device.resource_mgr.clear_container(container.name)
        return results

    def sleep(self, seconds: float) -> None:
        """Block for a time.

        Raises:
            CancelledError: the iteration, or the step that takes the element, was cancelled.
        """
        is_cancelled = threading.Event()
        managers = [self.cancellation, self._step_cancellation() or self.cancellation]
        tokens = [(manager, manager.register(is_cancelled.set)) for manager in managers]
        try:
            if None in [token for _, token in tokens] or is_cancelled.wait(min(seconds, _MAX_WAIT)):
                raise CancelledError(_DELETED)
        finally:
            for manager, token in tokens:
                manager.deregister(token)

    def _step_cancellation(self) -> CancellationManager | None:
        """Return the manager of the step for which this thread takes an element, if any."""
        thread, step = self._step
        return step if thread == threading.get_ident() else None

    def _runtime_of(self, function: CapturedFunction) -> tuple[Any, Any]:
        """Return a function's runtime and handle; with random ops, those of this iteration."""
        if not function.has_random_ops:
            return function.functions, function.handle
        with self._lock:
            runtime = self._own_runtimes.get(function.functions)
            if runtime is None:
                runtime = self._own_runtimes[function.functions] = function.functions.fresh()
        return runtime, runtime.instantiate(function.name, function.attrs)


class _CallContext:
    """The part of a kernel's context that a function call reads."""

    __slots__ = ("args",)

    def __init__(self, args: ExecutorArgs) -> None:
        self.args = args


class CapturedFunction:
    """A function of the graph and the values captured when its dataset was created.

    Attributes:
        functions, handle: the function runtime, and the function's handle there.
        name, attrs: those of the function.
        captured: the values appended to the arguments of each call.
        has_random_ops: whether it has random ops, which restart with each iteration.
        was_called: whether it was called; only the first call checks its arguments.
    """

    __slots__ = (
        "attrs", "captured", "functions", "handle", "has_random_ops", "name", "was_called",
    )  # fmt: skip

    def __init__(self, ctx: OpKernelContext, function: Any, captured: Sequence[Value] = ()) -> None:
        self.functions = ctx.functions
        self.handle = ctx.functions.instantiate(function.name, function.attrs)
        self.name, self.attrs = function.name, function.attrs
        self.captured = tuple(captured)
        self.has_random_ops: bool = ctx.functions.has_random_ops(function.name)
        self.was_called = False

    def check(self, args: Sequence[Value]) -> None:
        """Check the element types of the arguments of the first call.

        Nothing checked them before: in the graph, a dataset is a variant without element types.

        Raises:
            InvalidArgumentError: the function takes other types.
        """
        for index, (value, dtype) in enumerate(zip(args, self.handle.body.arg_types, strict=False)):
            if not has_dtype(value, dtype):
                found = dtypes.as_dtype(dtype_of_value(value)).name
                raise InvalidArgumentError(
                    f"the function {self.name!r} takes {dtype.name} as argument {index}, but its "
                    f"dataset passes {found}; check output_types of the dataset"
                )
        self.was_called = True

    def elements(self, scope: Scope, args: Sequence[Value]) -> list[Value] | None:
        """Return the results of a call; None if it raises OutOfRange, which ends the sequence."""
        try:
            return scope.call(self, args)
        except OutOfRangeError:
            return None

    def test(self, scope: Scope, args: Sequence[Value], what: str) -> bool:
        """Return the boolean result of a call of a predicate.

        Raises:
            InvalidArgumentError: it returns something else.
        """
        results = scope.call(self, args)
        if not is_one_scalar(results, np.bool_):
            raise InvalidArgumentError(f"{what} must return a scalar bool.")
        return bool(results[0])

    def dataset(self, scope: Scope, args: Sequence[Value]) -> Dataset:
        """Return the dataset that a call returns.

        Raises:
            InvalidArgumentError: it returns something else.
        """
        results = scope.call(self, args)
        if len(results) != 1:
            raise InvalidArgumentError(
                f"Function must return a single dataset, it returned {len(results)} values"
            )
        return dataset_of(results[0])


def is_one_scalar(results: Sequence[Value], dtype: type[np.generic]) -> bool:
    """Return whether a function returned one scalar of a numeric element type."""
    return len(results) == 1 and dtype_of_value(results[0]) == dtype and not results[0].ndim


class Origin(NamedTuple):
    """The kernel call that created a dataset, from which the dataset's graph can be written.

    Attributes:
        op: the op of the node.
        inputs: the values of its inputs, lists unfolded.
        attrs: its attrs as kernels see them.
        functions: the function runtime of the session.
    """

    op: str
    inputs: tuple[Value, ...]
    attrs: Mapping[str, Any]
    functions: Any


class Dataset(ABC):
    """A pipeline of elements, as an immutable scalar of dtype variant.

    Attributes:
        dtypes, shapes: element type and static shape of each component.
        inputs: the datasets it is derived from.
        may_wait: whether taking an element may block: files are read or functions called.
        origin: the call of a kernel that made it; None for one that no kernel returned.
    """

    dtype: ClassVar[np.dtype[Any]] = dtypes.variant.as_numpy_dtype
    shape: ClassVar[tuple[int, ...]] = ()
    ndim: ClassVar[int] = 0
    size: ClassVar[int] = 1

    waits: ClassVar[bool] = False
    """Whether taking an element of such a dataset may block, regardless of its inputs."""
    is_indexed: ClassVar[bool] = False
    """Whether `lookup` can compute any element of such a dataset from elements of its inputs."""

    def __init__(
        self,
        dtypes: Sequence[DType],
        shapes: Sequence[Shape],
        inputs: Iterable[Dataset] = (),
    ) -> None:
        self.dtypes = tuple(dtypes)
        self.shapes = tuple(shapes)
        self.inputs = tuple(inputs)
        self.may_wait: bool = self.waits or any(source.may_wait for source in self.inputs)
        self.origin: Origin | None = None

    @property
    def source(self) -> Dataset:
        """The first input."""
        return self.inputs[0]

    @property
    def cardinality(self) -> int:
        """Number of elements, `INFINITE` or `UNKNOWN`."""
        return UNKNOWN

    @abstractmethod
    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""

    @property
    def batch_size(self) -> int:
        """The declared size of the first axis of all components; -1 if it is unknown."""
        return -1

    @property
    def is_indexable(self) -> bool:
        """Whether elements can be looked up by index, in this dataset and in all its inputs."""
        return self.is_indexed and all(source.is_indexable for source in self.inputs)

    def at(self, index: int, scope: Scope) -> Element:
        """Return the element at an index.

        Raises:
            UnimplementedError: elements of such a dataset cannot be looked up.
            FailedPreconditionError: the number of elements is unknown or infinite.
            OutOfRangeError: there is no such element.
        """
        if not self.is_indexed:
            raise UnimplementedError(f"Random access is not implemented for dataset {self!r}")
        count = self.cardinality
        if count < 0:
            what = "infinite" if count == INFINITE else "unknown"
            raise FailedPreconditionError(
                f"{self!r} has {what} cardinality, which does not support random access."
            )
        if not 0 <= index < count:
            raise OutOfRangeError(f"Index out of range [0, {count}):{index}")
        return self.lookup(index, scope)

    def lookup(self, index: int, scope: Scope) -> Element:
        """Return the element at an index that exists; only for classes that are indexed."""
        raise NotImplementedError

    def item(self) -> Dataset:
        """Return the dataset itself, as a scalar array returns its element."""
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self.dtypes)} components>"


class Derived(Dataset):
    """A dataset whose elements have the structure of its input's."""

    def __init__(self, source: Dataset, *others: Dataset) -> None:
        super().__init__(source.dtypes, source.shapes, (source, *others))


class ElementIterator(ABC):
    """An iterator that can continue after an element that failed."""

    def __iter__(self) -> Elements:
        return self

    @abstractmethod
    def __next__(self) -> Element:
        """Return the next element; StopIteration at the end."""


def dataset_kernel(*ops: str, effects: Iterable[str] = (), **options: Any) -> Callable[[Any], Any]:
    """Declare a kernel that creates or uses a dataset on the host."""
    return kernel(*ops, host=True, stateful=True, effects=effects, **options)


def dataset_maker(*ops: str, effects: Iterable[str] = (), **options: Any) -> Callable[[Any], Any]:
    """Declare a kernel that returns a new dataset, and record the call in the dataset."""
    declare = dataset_kernel(*ops, effects=effects, **options)

    def decorate(function: Callable[..., Dataset]) -> Any:
        code = function.__code__
        named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]

        def made_by(
            function: Callable[..., Dataset],
            ctx: OpKernelContext,
            inputs: Sequence[Any],
            attrs: Mapping[str, Any],
        ) -> Dataset:
            named_attrs = {name: value for name, value in attrs.items() if name in named}
            dataset = function(ctx, *inputs, **named_attrs)
            flat = tuple(_unfolded(inputs))
            if not any(dataset is value for value in flat):
                dataset.origin = Origin(ctx.op, flat, attrs, ctx.functions)
            return dataset

        def make(ctx: OpKernelContext, *inputs: Any, **attrs: Any) -> Dataset:
            return made_by(function, ctx, inputs, attrs)

        def make_with_broker(
            ctx: OpKernelContext, *inputs: Any, broker: Broker, **attrs: Any
        ) -> Dataset:
            return made_by(partial(function, broker=broker), ctx, inputs, attrs)

        chosen = make_with_broker if "broker" in named else make
        return declare(update_wrapper(chosen, function))

    return decorate


def _unfolded(inputs: Sequence[Any]) -> Iterator[Any]:
    for value in inputs:
        if isinstance(value, list):
            yield from value
        else:
            yield value


def dataset_of(value: Any) -> Dataset:
    """Return the dataset in a variant.

    Raises:
        InvalidArgumentError: it holds something else.
    """
    dataset = (
        value.item() if getattr(value, "ndim", None) == 0 and not _is_dataset(value) else value
    )
    if not _is_dataset(dataset):
        raise InvalidArgumentError(
            f"expected a variant that holds a dataset, got one that holds {type(dataset).__name__}"
        )
    return dataset  # type: ignore[no-any-return]


def _is_dataset(value: Any) -> bool:
    return isinstance(value, Dataset)


def scalar(value: Value, what: str) -> Any:
    """Return the element of a scalar input, strings as bytes.

    Raises:
        InvalidArgumentError: it is not a scalar.
    """
    if value.ndim:
        raise InvalidArgumentError(f"{what} must be a scalar, got shape {list(value.shape)}")
    return value.item()


def structure(
    output_types: Sequence[np.dtype[Any]], output_shapes: Sequence[Shape]
) -> tuple[tuple[DType, ...], tuple[Shape, ...]]:
    """Return element types and shapes from a dataset op's attrs."""
    return tuple(map(dtypes.as_dtype, output_types)), tuple(output_shapes)


def path_to_root(root: Dataset, dataset: Dataset) -> list[Dataset] | None:
    """Return the datasets from the one after `dataset` to the root; None if it is not an input."""
    if root is dataset:
        return []
    for source in root.inputs:
        path = path_to_root(source, dataset)
        if path is not None:
            return [*path, root]
    return None


def on_drop(owner: Any, action: Callable[[], None]) -> weakref.finalize[..., Any]:
    """Call `action` when `owner` is garbage collected, but not at interpreter exit."""
    finalizer = weakref.finalize(owner, action)
    finalizer.atexit = False
    return finalizer
