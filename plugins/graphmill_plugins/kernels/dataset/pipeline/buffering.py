"""Prefetch, Cache, Window and Generator datasets.

Semantics: tensorflow/core/kernels/data/{cache,prefetch,window,generator}_dataset_op.cc.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from graphmill.dtypes import variant
from graphmill.errors import AlreadyExistsError, InvalidArgumentError, OpError
from graphmill.spi.checkpoints import BundleReader, BundleWriter
from graphmill.spi.kernels import cancellable, check_cancelled
from graphmill.spi.process import fork_safe_lock
from graphmill_plugins.kernels.dataset.pipeline.background_jobs import Prefetching
from graphmill_plugins.kernels.dataset.pipeline.basic import ListOfElements
from graphmill_plugins.kernels.dataset.pipeline.dataset import (
    UNKNOWN,
    CapturedFunction,
    Dataset,
    Derived,
    ElementIterator,
    on_drop,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import Shape, Value, VariantRegistry
    from graphmill.spi.files import Broker
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Element, Elements, Scope

_DEFAULT_BUFFER_SIZE: Final = 4
"""The buffer size for -1, for which TensorFlow would autotune the size."""


class Prefetch(Derived):
    """The elements, prefetched by a thread of the session's pool."""

    is_indexed = True

    def __init__(self, source: Dataset, size: int) -> None:
        if size < -1:
            raise InvalidArgumentError(
                f"buffer_size must be >= 0 or set buffer_size to be -1 for auto-tuning, got {size}"
            )
        super().__init__(source)
        self._size = _DEFAULT_BUFFER_SIZE if size == -1 else size

    @property
    def cardinality(self) -> int:
        """The cardinality of the input."""
        return self.source.cardinality

    @property
    def batch_size(self) -> int:
        """The batch size of the input."""
        return self.source.batch_size

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        elements = self.source.iterate(scope)
        if self._size == 0 or scope.pool is None:
            return elements
        return Prefetching(elements, self._size, scope)

    def lookup(self, index: int, scope: Scope) -> Element:
        """Return the element at an index."""
        return self.source.at(index, scope)


class MemoryCache:
    """The elements of a dataset, once an iterator has reached its end.

    Threads: `elements` is set once, in one assignment.
    """

    def __init__(self) -> None:
        self.elements: list[Element] | None = None


class Cache(Derived):
    """The elements, cached in memory by the first iterator that reaches the end."""

    is_indexed = True

    def __init__(self, source: Dataset, cache: MemoryCache) -> None:
        super().__init__(source)
        self._cache = cache

    @property
    def cardinality(self) -> int:
        """The cardinality of the input."""
        return self.source.cardinality

    @property
    def batch_size(self) -> int:
        """The batch size of the input."""
        return self.source.batch_size

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return _Caching(self.source, self._cache, scope)

    def lookup(self, index: int, scope: Scope) -> Element:
        """Return the element at an index."""
        cached = self._cache.elements
        return self.source.at(index, scope) if cached is None else cached[index]


class _Caching(ElementIterator):
    def __init__(self, source: Dataset, cache: MemoryCache, scope: Scope) -> None:
        self._dataset, self._cache, self._scope = source, cache, scope
        self._source: Elements | None = None
        self._seen: list[Element] | None = []

    def __next__(self) -> Element:
        if self._source is None:
            cached = self._cache.elements
            if cached is not None:
                self._seen = None
            self._source = self._dataset.iterate(self._scope) if cached is None else iter(cached)
        element = next(self._source, None)
        if element is None:
            if self._seen is not None and self._cache.elements is None:
                self._cache.elements = self._seen
            self._seen = None
            raise StopIteration
        if self._seen is not None:
            self._seen.append(element)
        return element


class CacheFiles(NamedTuple):
    """The broker that opens the files of a cache, and the codecs of its variants."""

    broker: Broker
    variants: VariantRegistry


class FileCache(Derived):
    """The elements, cached in a checkpoint by the first iterator that reaches the end.

    The keys are TensorFlow's, so the files are interchangeable with TensorFlow's.
    """

    waits = True

    def __init__(self, source: Dataset, prefix: str, files: CacheFiles) -> None:
        super().__init__(source)
        self.prefix, self._files = prefix, files
        self._lock = fork_safe_lock()
        self._is_being_written = False

    @property
    def cardinality(self) -> int:
        """The cardinality of the input."""
        return self.source.cardinality

    @property
    def batch_size(self) -> int:
        """The batch size of the input."""
        return self.source.batch_size

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        if self._files.broker.exists(f"{self.prefix}.index"):
            return _ReadingCache(self)
        return _WritingCache(self, self.source.iterate(scope))

    def open_writer(self) -> BundleWriter:
        """Start writing the files."""
        return BundleWriter(self.prefix, **self._files._asdict())

    def open_reader(self) -> BundleReader:
        """Open the files."""
        return BundleReader(self.prefix, **self._files._asdict())

    def key(self, element: int, component: int) -> str:
        """Return the name of a component in the checkpoint."""
        width = len(str(max(len(self.dtypes) - 1, 0)))
        return f"{element:7d}_{component:{width}d}"

    def start_writing(self) -> None:
        """Record that an iterator is writing the files.

        Raises:
            AlreadyExistsError: another iterator writes them.
        """
        with self._lock:
            if self._is_being_written:
                raise AlreadyExistsError(
                    f"There appears to be a concurrent caching iterator running on {self.prefix}"
                )
            self._is_being_written = True

    def stop_writing(self) -> None:
        """Record that the writing iterator has ended or was dropped."""
        self._is_being_written = False


class _WritingCache(ElementIterator):
    def __init__(self, dataset: FileCache, source: Elements) -> None:
        self._dataset, self._source = dataset, source
        self._writer: BundleWriter | None = None
        self._count = 0
        self._is_done = False

    def __next__(self) -> Element:
        if self._is_done:
            raise StopIteration
        if self._writer is None:
            self._dataset.start_writing()
            on_drop(self, self._dataset.stop_writing)
            self._writer = self._dataset.open_writer()
            on_drop(self, self._writer.abandon)
        element = next(self._source, None)
        if element is None:
            self._is_done = True
            self._writer.finish()
            self._dataset.stop_writing()
            raise StopIteration
        for component, (value, dtype) in enumerate(zip(element, self._dataset.dtypes, strict=True)):
            self._writer.add(self._dataset.key(self._count, component), value, dtype)
        self._count += 1
        return element


class _ReadingCache(ElementIterator):
    def __init__(self, dataset: FileCache) -> None:
        self._dataset = dataset
        self._reader = dataset.open_reader()
        self._next = 0

    def __next__(self) -> Element:
        keys = [self._dataset.key(self._next, c) for c in range(len(self._dataset.dtypes))]
        if not keys or keys[0] not in self._reader:
            raise StopIteration
        self._next += 1
        return tuple(map(self._read, keys, self._dataset.dtypes))

    def _read(self, key: str, dtype: DType) -> Value:
        value = self._reader.read_tensor(key)
        return value.item() if dtype is variant and not value.ndim else value


class Window(Dataset):
    """Windows over the elements: one dataset per component.

    Raises:
        InvalidArgumentError: a size is not positive.
    """

    def __init__(
        self,
        source: Dataset,
        size: int,
        shift: int,
        stride: int,
        structure: tuple[Sequence[DType], Sequence[Shape]],
        *,
        drops_remainder: bool,
    ) -> None:
        for what, value in (("size", size), ("shift", shift), ("stride", stride)):
            if value <= 0:
                raise InvalidArgumentError(f"Window {what} must be greater than zero, got {value}.")
        super().__init__(*structure, (source,))
        self.window_size, self.shift, self.stride = size, shift, stride
        self.drops_remainder = drops_remainder

    @property
    def span(self) -> int:
        """The number of input elements that a window covers, skipped ones included."""
        return (self.window_size - 1) * self.stride + 1

    @property
    def cardinality(self) -> int:
        """Number of windows."""
        inner = self.source.cardinality
        if inner < 0:
            return inner
        if not self.drops_remainder:
            return -(-inner // self.shift)
        return 0 if inner < self.span else (inner - self.span) // self.shift + 1

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return _Windowing(self, self.source.iterate(scope))


class _Windowing(ElementIterator):
    def __init__(self, dataset: Window, source: Elements) -> None:
        self._dataset = dataset
        self._source: Elements | None = source
        self._buffer: deque[Element | OpError] = deque()

    def __next__(self) -> Element:
        dataset = self._dataset
        while self._source is not None and len(self._buffer) < dataset.span:
            check_cancelled()
            self._take(self._source)
        if not self._buffer or (len(self._buffer) < dataset.span and dataset.drops_remainder):
            raise StopIteration
        window = list(islice(self._buffer, 0, None, dataset.stride))
        self._shift()
        elements: list[Element] = []
        for element in window:
            if isinstance(element, OpError):
                raise element
            elements.append(element)
        source = dataset.source
        return tuple(
            ListOfElements([(element[index],) for element in elements], (dtype,), (shape,))
            for index, (dtype, shape) in enumerate(zip(source.dtypes, source.shapes, strict=True))
        )

    def _take(self, source: Elements) -> None:
        try:
            element = next(source, None)
        except OpError as error:
            self._buffer.append(error)  # raised by the window that contains it
            return
        if element is None:
            self._source = None
        else:
            self._buffer.append(element)

    def _shift(self) -> None:
        skipped = self._dataset.shift - len(self._buffer)
        for _ in range(min(self._dataset.shift, len(self._buffer))):
            self._buffer.popleft()
        if skipped > 0 and self._source is not None:
            for _ in cancellable(islice(self._source, skipped)):
                pass


class Generator(Dataset):
    """The results of calling `advance` on the state that `init` returned, until OutOfRange."""

    waits = True

    def __init__(
        self,
        init: CapturedFunction,
        advance: CapturedFunction,
        finalize: CapturedFunction,
        structure: tuple[Sequence[DType], Sequence[Shape]],
    ) -> None:
        super().__init__(*structure)
        self.init, self.advance, self.finalize = init, advance, finalize

    @property
    def cardinality(self) -> int:
        """The number of elements: unknown."""
        return UNKNOWN

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return _Generating(self, scope)


class _Generating(ElementIterator):
    def __init__(self, dataset: Generator, scope: Scope) -> None:
        self._dataset, self._scope = dataset, scope
        self._state: list[object] | None = None
        self._is_at_end = False

    def __next__(self) -> Element:
        if self._is_at_end:
            raise StopIteration
        if self._state is None:
            self._state = self._scope.call(self._dataset.init, ())
        results = self._dataset.advance.elements(self._scope, self._state)
        if results is None:
            self._is_at_end = True
            self._scope.call(self._dataset.finalize, self._state)
            raise StopIteration
        return tuple(results)
