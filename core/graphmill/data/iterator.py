"""Iterators over datasets in graphs: `get_next` is a tensor, run in a session.

Semantics: tensorflow/python/data/ops/iterator_ops.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.data.element_spec import (
    as_datasets,
    check_same_structure,
    map_spec,
    output_attrs,
    spec_of_types,
)
from graphmill.data.traced_function import trace_source
from graphmill.errors import FailedPreconditionError, InvalidArgumentError
from graphmill.graph.infer_graph import infer_graph
from graphmill.graph.random_seed import get_seed
from graphmill.ops import dataset as ops

if TYPE_CHECKING:
    from graphmill.data.dataset import Dataset
    from graphmill.graph.node import Node
    from graphmill.graph.tensor import Tensor


class Iterator:
    """An iterator of a graph.

    Attributes:
        element_spec: the structure of the elements.
        handle: its resource handle, a tensor.
    """

    def __init__(self, handle: Tensor, initializer: Node | None, element_spec: Any) -> None:
        """Wrap the nodes of an iterator; `make_one_shot_iterator` and others create it."""
        self.handle = handle
        self._initializer = initializer
        self.element_spec = element_spec

    @classmethod
    def from_structure(
        cls, output_types: Any, output_shapes: Any = None, shared_name: str | None = None
    ) -> Iterator:
        """Add an iterator that any dataset of one structure can initialize.

        Args:
            output_types: the structure of the element types.
            output_shapes: the structure of the shapes; by default all unknown.
            shared_name: the name under which sessions share it.
        """
        element_spec = spec_of_types(output_types, output_shapes)
        handle = ops.iterator_v2(
            shared_name=shared_name or "", container="", **output_attrs(element_spec)
        )
        return cls(handle, None, element_spec)

    @property
    def initializer(self) -> Node:
        """The node that starts the iterator at the first element.

        Raises:
            FailedPreconditionError: it needs none, or `make_initializer` makes them.
        """
        if self._initializer is None:
            raise FailedPreconditionError(
                "Iterator does not have an initializer: a one-shot iterator needs none; for an "
                "iterator from a structure, call make_initializer(dataset)"
            )
        return self._initializer

    def make_initializer(self, dataset: Dataset, name: str | None = None) -> Node:
        """Return a node that starts the iterator at the first element of a dataset.

        Raises:
            InvalidArgumentError: its elements have another structure or other types.
        """
        check_same_structure(self.element_spec, dataset.element_spec, "the element of the dataset")
        graph = self.handle.graph
        with graph.as_default():
            return ops.make_iterator(dataset.add_to(graph), self.handle, name=name)

    def get_next(self, name: str | None = None) -> Any:
        """Return the next element: each step that runs its tensors reads one.

        After the last element a step fails with OutOfRangeError.
        """
        attrs = output_attrs(self.element_spec)
        tensors = ops.iterator_get_next(self.handle, name=name, **attrs)
        return as_datasets(self.element_spec, tensors)

    @property
    def output_types(self) -> Any:
        """The element types, in the structure of the elements."""
        return map_spec(lambda spec: spec.dtype, self.element_spec)  # type: ignore[arg-type,return-value]

    @property
    def output_shapes(self) -> Any:
        """The shapes, in the structure of the elements."""
        return map_spec(lambda spec: spec.shape, self.element_spec)  # type: ignore[arg-type,return-value]


def make_one_shot_iterator(dataset: Dataset) -> Iterator:
    """Add an iterator that needs no initializer, to the default graph.

        x = graphmill.data.make_one_shot_iterator(Dataset.range(2)).get_next()
        print(session.run(x), session.run(x))  # 0 1

    Raises:
        InvalidArgumentError: the dataset depends on tensors of the graph, for example on fed ones;
            use `make_initializable_iterator` for it.
    """
    if dataset.graph is not None:
        raise InvalidArgumentError(
            "Failed to create a one-shot iterator: the dataset depends on tensors of a graph; use "
            "make_initializable_iterator instead"
        )
    graph = infer_graph()
    get_seed(None, graph)  # TensorFlow counts the iterator as an op without a seed
    with graph.as_default():
        factory = trace_source(dataset.add_to, "one_shot")
        handle = ops.one_shot_iterator(
            dataset_factory=factory.add_to(graph), **output_attrs(dataset.element_spec)
        )
    return Iterator(handle, None, dataset.element_spec)


def make_initializable_iterator(dataset: Dataset, shared_name: str | None = None) -> Iterator:
    """Add an iterator that `session.run(iterator.initializer)` starts, to the dataset's graph.

        limit = F.placeholder("int64", [])
        iterator = graphmill.data.make_initializable_iterator(Dataset.range(limit))
        x = iterator.get_next()
        session.run(iterator.initializer, {limit: 3})
        print(session.run(x), session.run(x))  # 0 1

    Args:
        dataset: the dataset.
        shared_name: the name under which sessions share it.
    """
    graph = infer_graph() if dataset.graph is None else dataset.graph
    with graph.as_default():
        attrs = output_attrs(dataset.element_spec)
        handle = ops.iterator_v2(shared_name=shared_name or "", container="", **attrs)
        initializer = ops.make_iterator(dataset.add_to(graph), handle)
    return Iterator(handle, initializer, dataset.element_spec)
