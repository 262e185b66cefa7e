"""Kernels that wrap a dataset in a variant of another type, and unwrap it.

Semantics: tensorflow/core/kernels/data/dataset_ops.cc and framework/dataset.cc. TensorFlow wraps a
dataset so that copying it to another device does not copy its elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill_plugins.kernels.dataset.pipeline.dataset import dataset_kernel, dataset_of

if TYPE_CHECKING:
    from graphmill.spi import OpKernelContext, Value
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset


class WrappedDataset:
    """A dataset inside a scalar of dtype variant that is not a dataset itself.

    Attributes:
        dataset: the dataset.
    """

    __slots__ = ("dataset",)

    dtype: ClassVar[np.dtype[Any]] = dtypes.variant.as_numpy_dtype
    shape: ClassVar[tuple[int, ...]] = ()
    ndim: ClassVar[int] = 0
    size: ClassVar[int] = 1

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    def item(self) -> WrappedDataset:
        """Return the object itself, as a scalar array returns its element."""
        return self


@dataset_kernel("WrapDatasetVariant")
def wrap_dataset_variant(ctx: OpKernelContext, dataset: Value) -> WrappedDataset:
    """Wrap a dataset."""
    del ctx
    return WrappedDataset(dataset_of(dataset))


@dataset_kernel("UnwrapDatasetVariant")
def unwrap_dataset_variant(ctx: OpKernelContext, wrapped: Any) -> Dataset:
    """Return the dataset that was wrapped.

    Raises:
        InvalidArgumentError: the variant holds something else.
    """
    del ctx
    variant = wrapped.item() if isinstance(wrapped, np.ndarray) and not wrapped.ndim else wrapped
    if not isinstance(variant, WrappedDataset):
        raise InvalidArgumentError(
            "expected a variant that holds a wrapped dataset, got one that holds "
            f"{type(variant).__name__}"
        )
    return variant.dataset
