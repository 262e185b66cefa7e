"""Iterate over a dataset without a session of the caller: each loop reads NumPy arrays.

A dataset becomes a value the first time that it is iterated over, as it does in TensorFlow's eager
mode: caches stay filled, and a shuffle with `reshuffle_each_iteration` has another order in the
next loop. Datasets that it reads become values as well, so that all readers share their state.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from graphmill.data.components import AddedDatasets
from graphmill.data.element_spec import DatasetSpec, flatten, output_attrs, pack
from graphmill.errors import OutOfRangeError
from graphmill.graph.builder import Graph
from graphmill.ops import dataset as ops
from graphmill.runtime.threads.finalizer_thread import call_when_dropped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from graphmill.data.dataset import Dataset
    from graphmill.graph.tensor import Tensor


class DatasetValue:
    """A dataset as a computed variant, with its element structure.

    Threads: several may iterate at the same time.

    Attributes:
        element_spec: the structure of its elements.
        variant: the dataset as a variant tensor.
    """

    def __init__(self, element_spec: Any, variant: Any, owner: Any) -> None:
        """Wrap a variant; `owner` keeps the sessions open in which its functions run."""
        self.element_spec, self.variant, self._owner = element_spec, variant, owner

    def elements(self) -> Iterator[Any]:
        """Return an iterator over the elements: NumPy arrays, or structures of these.

        Raises:
            OpError: an element cannot be computed; the next one is read by the next call.
        """
        return _Elements(self, self.reader.start(self.variant))

    def cardinality(self) -> int:
        """Return the number of elements; -1 if it is infinite, -2 if it is unknown."""
        return self.reader.cardinality(self.variant)

    @cached_property
    def reader(self) -> Reader:
        """The session that reads the elements."""
        return Reader(self.element_spec)

    def as_element(self, values: list[Any]) -> Any:
        """Return the structure of the values of an element."""
        return as_structure(self.element_spec, values, self)


def as_structure(element_spec: Any, values: list[Any], owner: Any) -> Any:
    """Return the structure of values, in which datasets keep `owner` alive."""
    parts = zip(values, flatten(element_spec), strict=True)
    return pack(element_spec, [_as_part(value, spec, owner) for value, spec in parts])


def _as_part(value: Any, spec: Any, owner: Any) -> Any:
    if not isinstance(spec, DatasetSpec):
        return value
    from graphmill.data.dataset import Dataset

    return Dataset.of_value(DatasetValue(spec.element_spec, value, owner))


class Reader:
    """A session with the nodes that iterate over any dataset of one structure."""

    def __init__(self, element_spec: Any) -> None:
        attrs = output_attrs(element_spec)
        graph = Graph()
        with graph.as_default():
            variant = graph.placeholder("variant", [])
            handle = graph.placeholder("resource", [])
            new_handle = ops.anonymous_iterator_v3(**attrs)
            start = ops.make_iterator(variant, handle)
            elements = ops.iterator_get_next(handle, **attrs)
            count = ops.dataset_cardinality(variant)
        self._opened = opened = _OpenSession(graph)  # open as long as the reader exists
        self._new_handle = opened.session.make_callable(new_handle)
        self._start = opened.session.make_callable(start, [variant, handle])
        self._count = opened.session.make_callable(count, [variant])
        self.next = opened.session.make_callable(elements, [handle])

    def start(self, variant: Any) -> Any:
        """Return the handle of a new iterator over a dataset."""
        handle = self._new_handle()
        self._start(variant, handle)
        return handle

    def cardinality(self, variant: Any) -> int:
        """Return the number of elements of a dataset, or a negative number."""
        return int(self._count(variant))


def compute(dataset: Dataset) -> DatasetValue:
    """Compute a dataset, and the datasets it reads that have no value yet.

    Raises:
        OpError: it cannot be computed.
    """
    graph = Graph()
    sources: dict[Tensor, DatasetValue] = {}
    added = AddedDatasets(graph, sources)
    dataset.add_to(graph, added)
    opened = _OpenSession(graph)
    tensors = [tensor for _, tensor in added.pairs if tensor not in sources]
    datasets = [item for item, tensor in added.pairs if tensor not in sources]
    fed = {tensor: value.variant for tensor, value in sources.items()}
    variants = opened.session.run(tensors, fed)
    owner = (opened, *sources.values())
    for item, variant in zip(datasets, variants, strict=True):
        item.set_value(DatasetValue(item.element_spec, variant, owner))
    return dataset.value


def evaluate(
    dataset: Dataset, element_spec: Any, add: Callable[[Graph, Tensor], list[Tensor]]
) -> Any:
    """Return the values of nodes that read a dataset.

    Args:
        dataset: the dataset.
        element_spec: the structure of the values.
        add: adds the nodes to a graph, for the variant tensor of the dataset.

    Raises:
        OpError: the dataset or the nodes cannot be computed.
    """
    values, opened = run(dataset, add)
    return as_structure(element_spec, values, (opened, dataset.value))


def run(dataset: Dataset, add: Callable[[Graph, Tensor], Any]) -> tuple[Any, Any]:
    """Run nodes that read a dataset; return their values and the owner of the session.

    Raises:
        OpError: the dataset or the nodes cannot be computed.
    """
    graph = Graph()
    with graph.as_default():
        variant = graph.placeholder("variant", [])
        results = add(graph, variant)
    opened = _OpenSession(graph)
    return opened.session.run(results, {variant: dataset.value.variant}), opened


class _OpenSession:
    """A session that is closed when nothing refers to this object any more."""

    def __init__(self, graph: Graph) -> None:
        from graphmill.session.session import Session

        self.session = Session(graph=graph)
        call_when_dropped(self, self.session.close)


class _Elements:
    """The elements of one loop."""

    def __init__(self, value: DatasetValue, handle: Any) -> None:
        self._value, self._handle = value, handle

    def __iter__(self) -> _Elements:
        return self

    def __next__(self) -> Any:
        try:
            values = self._value.reader.next(self._handle)
        except OutOfRangeError:
            raise StopIteration from None
        return self._value.as_element(values)
