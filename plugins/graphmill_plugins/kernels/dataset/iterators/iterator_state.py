"""Kernels that save the position of an iterator, and restore it.

Semantics: tensorflow/core/kernels/data/iterator_ops.cc. TensorFlow saves the state of each dataset
of the pipeline; here an iterator is restored by taking the same number of elements again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels.dataset._graph_of_dataset import (
    FAIL,
    check_state,
    graph_of_dataset,
)
from graphmill_plugins.kernels.dataset.iterators.consume import ConsumingKernel
from graphmill_plugins.kernels.dataset.iterators.ops import IteratorPosition, iterator_of
from graphmill_plugins.kernels.dataset.pipeline.dataset import dataset_kernel

if TYPE_CHECKING:
    from graphmill.spi import OpKernelContext


class SavedIterator:
    """The position of an iterator, as a scalar of dtype variant.

    Attributes:
        position: the position.
    """

    __slots__ = ("position",)

    dtype: ClassVar[np.dtype[Any]] = dtypes.variant.as_numpy_dtype
    shape: ClassVar[tuple[int, ...]] = ()
    ndim: ClassVar[int] = 0
    size: ClassVar[int] = 1

    def __init__(self, position: IteratorPosition) -> None:
        self.position = position

    def item(self) -> SavedIterator:
        """Return the object itself, as a scalar array returns its element."""
        return self


@dataset_kernel("SerializeIterator", effects=("state",))
def serialize_iterator(
    ctx: OpKernelContext, resource_handle: Any, external_state_policy: int
) -> SavedIterator:
    """Return the position of an iterator."""
    resource = iterator_of(resource_handle)
    dataset, _, _ = resource.running()
    if external_state_policy == FAIL:
        graph = graph_of_dataset(dataset, functions=ctx.functions)
        check_state(graph, ctx.functions)
    return SavedIterator(resource.position())


@dataset_kernel("DeserializeIterator", async_=True, effects=("state",))
class DeserializeIteratorKernel(ConsumingKernel):
    """Move a started iterator to a saved position."""

    def result(self, ctx: OpKernelContext, *inputs: Any) -> None:
        """Take elements up to the position.

        Raises:
            InvalidArgumentError: the variant holds something else.
        """
        handle, serialized = inputs
        is_array = isinstance(serialized, np.ndarray)
        saved = serialized.item() if is_array and not serialized.ndim else serialized
        if not isinstance(saved, SavedIterator):
            raise InvalidArgumentError(
                "expected a variant that holds the state of an iterator, got one that holds "
                f"{type(saved).__name__}"
            )
        iterator_of(handle).restore(saved.position, ctx)
