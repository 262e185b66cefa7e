"""The tensors and values that datasets are built from, and their addition to a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.dtypes import as_dtype
from graphmill.errors import InvalidArgumentError
from graphmill.graph.tensor import Tensor
from graphmill.ops import math
from graphmill.ops.inputs import values
from graphmill.ops.inputs.input_values import holds_tensor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphmill.data.dataset import Dataset
    from graphmill.data.dataset_value import DatasetValue
    from graphmill.dtypes import DType
    from graphmill.graph.builder import Graph


class AddedDatasets:
    """The datasets that were added to a graph so far, each of them once.

    Attributes:
        graph: the graph.
        pairs: each dataset and its variant tensor.
        values: if not None, the datasets that are computed already, by the placeholders that they
            are fed to.
    """

    def __init__(self, graph: Graph, values: dict[Tensor, DatasetValue] | None = None) -> None:
        self.graph = graph
        self.pairs: list[tuple[Dataset, Tensor]] = []
        self._tensors: dict[int, Tensor] = {}
        self.values = values

    def find(self, dataset: Dataset) -> Tensor | None:
        """Return the variant tensor of a dataset that was added, else None."""
        return self._tensors.get(id(dataset))

    def record(self, dataset: Dataset, tensor: Tensor) -> None:
        """Record the variant tensor of a dataset."""
        self._tensors[id(dataset)] = tensor
        self.pairs.append((dataset, tensor))


class Component:
    """A tensor or value that a dataset is built from, to be added to a graph.

    Attributes:
        dtype: its element type.
        shape: its static shape.
        graph: the graph of a tensor; None for a value.
    """

    def __init__(self, source: Any, dtype: Any = None) -> None:
        """Convert a value to an array; a tensor stays as it is.

        Raises:
            InvalidArgumentError: it is not a tensor, or not of the type.
        """
        expected = None if dtype is None else as_dtype(dtype)
        self.graph: Graph | None = None
        if isinstance(source, (list, tuple)) and holds_tensor(source):
            from graphmill.functions import convert_to_tensor

            source = convert_to_tensor(source)
        if isinstance(source, Tensor):
            self._source: Any = source
            self.graph = source.graph
            self.dtype: DType = expected or source.dtype.base_dtype
            self.shape = source.shape.as_list() if source.shape.rank is not None else None
        else:
            array, self.dtype = values.to_array(source, expected)
            # The caller may change theirs before the dataset is used.
            self._source = array.copy() if array is source else array
            self.shape = list(array.shape)

    def add_to(self, graph: Graph) -> Tensor:
        """Return it as a tensor of the graph."""
        if isinstance(self._source, Tensor):
            if self._source.dtype.base_dtype is self.dtype:
                return self._source
            return math.cast(self._source, DstT=self.dtype)
        return graph.constant(self._source, self.dtype)

    @property
    def value(self) -> Any:
        """Its value as an array; None for a tensor."""
        return None if isinstance(self._source, Tensor) else self._source


def scalar(value: Any, dtype: str, what: str) -> Component:
    """Return an argument of a method as a scalar.

    Raises:
        InvalidArgumentError: it is not a scalar, or has another type.
    """
    try:
        component = Component(np.asarray(value) if isinstance(value, np.generic) else value, dtype)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"{what}: {error.message}") from None
    if component.shape not in ([], None):
        raise InvalidArgumentError(f"{what} must be a scalar, its shape is {component.shape}")
    return component


def common_graph(parts: Iterable[Any]) -> Graph | None:
    """Return the graph that components and datasets depend on; None if on none.

    Raises:
        InvalidArgumentError: they depend on several.
    """
    graphs = list({id(part.graph): part.graph for part in parts if part.graph is not None}.values())
    if len(graphs) > 1:
        raise InvalidArgumentError("a dataset cannot use tensors of several graphs")
    return graphs[0] if graphs else None
