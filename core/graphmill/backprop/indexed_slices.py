"""`IndexedSlices`: the gradient of a tensor of which only some rows were read.

Semantics: tf.IndexedSlices of tensorflow/python/framework/indexed_slices.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, TypeAlias

from graphmill.errors import InvalidValueError
from graphmill.graph.node_roles import is_constant
from graphmill.ops import array, math
from graphmill.ops.inference.tensor_shape import TensorShape

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.dtypes import DType
    from graphmill.graph.builder import Graph
    from graphmill.graph.node import Node
    from graphmill.graph.tensor import Tensor


@dataclass(frozen=True, slots=True)
class IndexedSlices:
    """Rows of a tensor that is zero elsewhere; rows with equal indices are summed.

    Attributes:
        values: the rows, along the first axis.
        indices: the index of each row in the tensor.
        dense_shape: shape of the tensor; None if it is not known.
    """

    values: Tensor
    indices: Tensor
    dense_shape: Tensor | None = None

    @property
    def dtype(self) -> DType:
        """Element type of the rows."""
        return self.values.dtype

    @property
    def graph(self) -> Graph:
        """The graph of the tensors."""
        return self.values.graph

    @property
    def name(self) -> str:
        """Name of the rows."""
        return self.values.name

    @property
    def op(self) -> Node:
        """The node of the rows."""
        return self.values.op

    @property
    def device(self) -> str:
        """The requested device of the rows."""
        return self.values.device

    @property
    def shape(self) -> TensorShape:
        """Static shape of the tensor, as far as it is known."""
        sizes = self.dense_shape
        if sizes is not None and is_constant(sizes.op):
            return TensorShape(sizes.op.attrs["value"].numpy().tolist())
        return self.values.shape.with_axis(0, None)

    def to_tensor(self) -> Tensor:
        """Return the dense tensor.

        Raises:
            InvalidArgumentError: its shape is not known.
        """
        if self.dense_shape is None:
            raise InvalidValueError(
                f"the shape of the tensor of {self.name!r} is not known; create IndexedSlices with "
                "a dense_shape"
            )
        count = array.strided_slice(self.dense_shape, [0], [1], [1], shrink_axis_mask=1)
        return math.unsorted_segment_sum(self.values, self.indices, count)


Gradient: TypeAlias = "Tensor | IndexedSlices"
"""A gradient: a dense tensor, or rows of one."""


def dense(gradient: Gradient) -> Tensor:
    """Return a gradient as a dense tensor."""
    return gradient.to_tensor() if isinstance(gradient, IndexedSlices) else gradient


def total(gradients: Sequence[Gradient], *, sequential: bool = False) -> Gradient:
    """Return the sum of gradients of one tensor: `IndexedSlices` if all of them are.

    Args:
        gradients: the gradients.
        sequential: whether each is added to the sum of those before it, or one node adds all.
    """
    if len(gradients) == 1:
        return gradients[0]
    slices = [item for item in gradients if isinstance(item, IndexedSlices)]
    if not slices and sequential:
        tensors = [dense(item) for item in gradients]
        return reduce(lambda before, tensor: math.add_n([before, tensor]), tensors)
    if len(slices) < len(gradients):
        return math.add_n([dense(item) for item in gradients])
    indices = [item.indices for item in slices]
    if len({index.dtype for index in indices}) > 1:
        indices = [math.cast(index, DstT="int64") for index in indices]
    return IndexedSlices(
        array.concat_v2([item.values for item in slices], 0),
        array.concat_v2(indices, 0),
        slices[0].dense_shape,
    )
