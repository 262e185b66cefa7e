"""Datasets that need no function: sources, Take, Skip, Repeat, Concatenate, Zip, Shard."""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError, OpError
from graphmill.spi.kernels import cancellable, check_cancelled, shape_of_value
from graphmill_plugins.kernels.dataset.pipeline.dataset import (
    INFINITE,
    UNKNOWN,
    Dataset,
    Derived,
    ElementIterator,
)
from graphmill_plugins.kernels.unstack import row, rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphmill.dtypes import DType
    from graphmill.spi import Shape, Value
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Element, Elements, Scope


class Tensors(Dataset):
    """A dataset of one element.

    Semantics: tensorflow/core/kernels/data/tensor_dataset_op.cc.
    """

    is_indexed = True

    def __init__(self, components: Sequence[Value], types: Sequence[DType]) -> None:
        super().__init__(types, list(map(shape_of_value, components, types)))
        self._element = tuple(components)

    @property
    def cardinality(self) -> int:
        """The number of elements: one."""
        return 1

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        del scope
        return iter((self._element,))

    def lookup(self, index: int, scope: Scope) -> Element:
        """Return the element at an index."""
        del index, scope
        return self._element


class Slices(Dataset):
    """The slices of tensors along their first axis, which has the same size in all.

    Semantics: tensorflow/core/kernels/data/tensor_slice_dataset_op.cc.

    Raises:
        InvalidArgumentError: a tensor is a scalar, or has more or fewer rows than the others.
    """

    is_indexed = True

    def __init__(self, components: Sequence[Value], types: Sequence[DType]) -> None:
        shapes = list(map(shape_of_value, components, types))
        if not all(shapes):
            raise InvalidArgumentError("All components must be at least 1-dimensional")
        counts = {shape[0] for shape in shapes}
        if len(counts) > 1:
            raise InvalidArgumentError(
                "All components must have the same size in the 0th dimension; got "
                f"{[shape[0] for shape in shapes]}"
            )
        super().__init__(types, [shape[1:] for shape in shapes])
        self._components = tuple(components)
        self._count = counts.pop()

    @property
    def cardinality(self) -> int:
        """Number of rows."""
        return self._count

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        del scope
        return zip(*map(row_values, self._components, self.dtypes), strict=True)

    def lookup(self, index: int, scope: Scope) -> Element:
        """Return the element at an index."""
        del scope
        pairs = zip(self._components, self.dtypes, strict=True)
        return tuple(row(tensor, index, dtype) for tensor, dtype in pairs)


def row_values(tensor: Value, dtype: DType) -> Sequence[Value]:
    """Return the rows of a tensor along its first axis."""
    # Iterating over an array of numbers gives views; over a vector of strings, bare bytes objects.
    return rows(tensor, dtype) if dtype is dtypes.string else tensor


class ListOfElements(Dataset):
    """A dataset of elements in a sequence.

    Attributes:
        elements: the elements.
    """

    is_indexed = True

    def __init__(
        self, elements: Sequence[Element], types: Sequence[DType], shapes: Sequence[Shape]
    ) -> None:
        super().__init__(types, shapes)
        self.elements = elements

    @property
    def cardinality(self) -> int:
        """Number of elements."""
        return len(self.elements)

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        del scope
        return iter(self.elements)

    def lookup(self, index: int, scope: Scope) -> Element:
        """Return the element at an index."""
        del scope
        return self.elements[index]


_INT64_MAX: Final = 2**63 - 1


class Range(Dataset):
    """Numbers from `start` up to, but excluding, `stop`.

    Semantics: tensorflow/core/kernels/data/range_dataset_op.cc.

    Raises:
        InvalidArgumentError: the step is zero, or the elements cannot be numbers.
    """

    is_indexed = True

    def __init__(self, start: int, stop: int, step: int, dtype: DType) -> None:
        if step == 0:
            raise InvalidArgumentError("step must be a non-zero integer.")
        if not (dtype.is_integer or dtype.is_floating):
            raise InvalidArgumentError(f"Unsupported data type: {dtype.name}")
        super().__init__((dtype,), ((),))
        self._range = range(start, stop, step)

    @property
    def cardinality(self) -> int:
        """Number of elements; a range up to the largest integer counts as infinite."""
        return INFINITE if self._range.stop == _INT64_MAX else len(self._range)

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        del scope
        return zip(map(self.dtypes[0].as_numpy_dtype.type, self._range), strict=True)

    def lookup(self, index: int, scope: Scope) -> Element:
        """Return the element at an index."""
        del scope
        return (self.dtypes[0].as_numpy_dtype.type(self._range[index]),)


class Take(Derived):
    """The first elements; all for a negative count."""

    is_indexed = True

    def __init__(self, source: Dataset, count: int) -> None:
        super().__init__(source)
        self._count = count

    @property
    def cardinality(self) -> int:
        """The smaller of the count and the cardinality of the input."""
        inner = self.source.cardinality
        if self._count < 0 or inner == UNKNOWN:
            return inner
        return self._count if inner == INFINITE else min(inner, self._count)

    @property
    def batch_size(self) -> int:
        """The batch size of the input."""
        return self.source.batch_size

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        elements = self.source.iterate(scope)
        return elements if self._count < 0 else _Taking(elements, self._count)

    def lookup(self, index: int, scope: Scope) -> Element:
        """Return the element at an index."""
        return self.source.at(index, scope)


class _Taking(ElementIterator):
    def __init__(self, source: Elements, count: int) -> None:
        self._source = source
        self._remaining = count

    def __next__(self) -> Element:
        if self._remaining <= 0:
            raise StopIteration
        element = next(self._source)  # an element that fails is not counted
        self._remaining -= 1
        return element


class Skip(Derived):
    """The elements after the first `count`; none for a negative count."""

    is_indexed = True

    def __init__(self, source: Dataset, count: int) -> None:
        super().__init__(source)
        self._count = count

    @property
    def cardinality(self) -> int:
        """The number of elements after the skipped ones."""
        inner = self.source.cardinality
        if self._count < 0:
            return 0
        return inner if inner < 0 else max(inner - self._count, 0)

    @property
    def batch_size(self) -> int:
        """The batch size of the input."""
        return self.source.batch_size

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        if self._count < 0:
            return iter(())
        return _Skipping(self.source.iterate(scope), self._count)

    def lookup(self, index: int, scope: Scope) -> Element:
        """Return the element at an index."""
        return self.source.at(index + self._count, scope)


class _Skipping(ElementIterator):
    def __init__(self, source: Elements, count: int) -> None:
        self._source = source
        self._remaining = count

    def __next__(self) -> Element:
        while self._remaining > 0:
            check_cancelled()
            next(self._source)
            self._remaining -= 1
        return next(self._source)


class Repeat(Derived):
    """The elements, repeated `count` times; forever for a negative count."""

    is_indexed = True

    def __init__(self, source: Dataset, count: int) -> None:
        super().__init__(source)
        self._count = count

    @property
    def cardinality(self) -> int:
        """The cardinality of the input times the count."""
        inner = self.source.cardinality
        if self._count < 0:
            return 0 if inner == 0 else INFINITE
        if self._count == 0:
            return 0
        return inner if inner < 0 else inner * self._count

    @property
    def batch_size(self) -> int:
        """The batch size of the input."""
        return self.source.batch_size

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return _Repeating(self.source, self._count, scope)

    def lookup(self, index: int, scope: Scope) -> Element:
        """Return the element at an index."""
        return self.source.at(index % self.source.cardinality, scope)


class _Repeating(ElementIterator):
    def __init__(self, source: Dataset, count: int, scope: Scope) -> None:
        self._dataset = source
        self._remaining = count
        self._scope = scope
        self._source: Elements | None = None

    def __next__(self) -> Element:
        while self._remaining:
            check_cancelled()
            is_first = self._source is None
            if self._source is None:
                self._source = self._dataset.iterate(self._scope)
            element = next(self._source, None)
            if element is not None:
                return element
            self._source = None
            self._remaining -= self._remaining > 0
            if is_first and self._remaining < 0:
                break  # an empty dataset, repeated forever
        self._remaining = 0
        raise StopIteration


class Concatenate(Derived):
    """The elements of one dataset, then those of another."""

    is_indexed = True

    def __init__(self, source: Dataset, other: Dataset) -> None:
        if source.dtypes != other.dtypes:
            raise InvalidArgumentError(
                f"input dataset and dataset to concatenate have different output_types "
                f"{_names(source)} and {_names(other)}"
            )
        super().__init__(source, other)

    @property
    def cardinality(self) -> int:
        """The sum of the cardinalities of the inputs."""
        first, second = (source.cardinality for source in self.inputs)
        if INFINITE in (first, second):
            return INFINITE
        return UNKNOWN if UNKNOWN in (first, second) else first + second

    @property
    def batch_size(self) -> int:
        """The common batch size of all inputs; -1 if they differ."""
        return _common_batch_size(self.inputs)

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return chain.from_iterable(_iterators(self.inputs, scope))

    def lookup(self, index: int, scope: Scope) -> Element:
        """Return the element at an index."""
        first, second = self.inputs
        start = first.cardinality
        return first.at(index, scope) if index < start else second.at(index - start, scope)


def _common_batch_size(inputs: Sequence[Dataset]) -> int:
    sizes = {source.batch_size for source in inputs}
    return sizes.pop() if len(sizes) == 1 else -1


def _iterators(inputs: Sequence[Dataset], scope: Scope) -> Iterator[Elements]:
    return (source.iterate(scope) for source in inputs)


def _names(dataset: Dataset) -> str:
    return "(" + ", ".join(dtype.name for dtype in dataset.dtypes) + ")"


class Zip(Dataset):
    """Elements of several datasets side by side, up to the end of the shortest."""

    is_indexed = True

    def __init__(self, inputs: Sequence[Dataset]) -> None:
        super().__init__(
            [dtype for source in inputs for dtype in source.dtypes],
            [shape for source in inputs for shape in source.shapes],
            inputs,
        )

    @property
    def cardinality(self) -> int:
        """The smallest cardinality of the inputs."""
        counts = [source.cardinality for source in self.inputs]
        if UNKNOWN in counts:
            return UNKNOWN
        return min((count for count in counts if count != INFINITE), default=INFINITE)

    @property
    def batch_size(self) -> int:
        """The common batch size of all inputs; -1 if they differ."""
        return _common_batch_size(self.inputs)

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        return _Zipping([source.iterate(scope) for source in self.inputs])

    def lookup(self, index: int, scope: Scope) -> Element:
        """Return the element at an index."""
        return tuple(chain.from_iterable(source.at(index, scope) for source in self.inputs))


class _Zipping(ElementIterator):
    def __init__(self, sources: list[Elements]) -> None:
        self._sources = sources

    def __next__(self) -> Element:
        failure: OpError | None = None
        parts: list[Element | None] = []
        for source in self._sources:
            # Advance all inputs, even if one fails, so that they stay in step.
            try:
                parts.append(next(source, None))
            except OpError as error:
                failure = failure or error
        if failure is not None:
            raise failure
        if None in parts or not parts:
            self._sources = []
            raise StopIteration
        return tuple(chain.from_iterable(part for part in parts if part is not None))


class Shard(Derived):
    """Every `count`-th element, starting at `index`."""

    is_indexed = True

    def __init__(
        self, source: Dataset, count: int, index: int, *, requires_non_empty: bool = False
    ) -> None:
        if count <= 0:
            raise InvalidArgumentError(
                f"Number of shards must be greater than zero (currently num_shards = {count})."
            )
        if not 0 <= index < count:
            raise InvalidArgumentError(
                f"Index must be between 0 and {count - 1} (currently index = {index})."
            )
        super().__init__(source)
        self._count, self._index, self._requires_non_empty = count, index, requires_non_empty

    @property
    def cardinality(self) -> int:
        """Number of elements in the shard."""
        inner = self.source.cardinality
        return inner if inner < 0 else len(range(self._index, inner, self._count))

    @property
    def batch_size(self) -> int:
        """The batch size of the input."""
        return self.source.batch_size

    def iterate(self, scope: Scope) -> Elements:
        """Return an iterator over the elements."""
        elements = self.source.iterate(scope)
        return _Sharding(elements, self._count, self._index, self._requires_non_empty)

    def lookup(self, index: int, scope: Scope) -> Element:
        """Return the element at an index."""
        return self.source.at(self._index + index * self._count, scope)


class _Sharding(ElementIterator):
    def __init__(self, source: Elements, count: int, index: int, requires_non_empty: bool) -> None:
        self._source = source
        self._count, self._skip, self._requires_non_empty = count, index, requires_non_empty
        self._later_shards = count - 1 - index

    def __next__(self) -> Element:
        while self._skip:
            check_cancelled()
            self._take()
            self._skip -= 1
        element = self._take()
        self._skip = self._count - 1
        if self._requires_non_empty:
            others = list(cancellable(islice(self._source, self._later_shards)))
            if len(others) < self._later_shards:
                raise InvalidArgumentError(
                    "Could not apply sharding policy: the dataset has fewer elements than the "
                    f"{self._count} shards; with require_non_empty each shard needs one"
                )
            self._skip -= self._later_shards
            self._requires_non_empty = False
        return element

    def _take(self) -> Element:
        element = next(self._source, None)
        if element is None:
            raise StopIteration
        return element
