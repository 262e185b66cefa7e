"""Kernel of datasets of the keys and values of LMDB databases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError
from graphmill.spi.files import as_path
from graphmill_plugins.kernels._strings import decode
from graphmill_plugins.kernels.dataset.pipeline.dataset import dataset_maker
from graphmill_plugins.kernels.dataset.pipeline.files.lmdb_records import LmdbRecords

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import OpKernelContext, Shape, Value
    from graphmill.spi.files import Broker
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset


@dataset_maker("LMDBDataset", "ExperimentalLMDBDataset", effects=("fs.read",), brokered=True)
def lmdb_dataset(
    ctx: OpKernelContext,
    filenames: Value,
    output_types: Sequence[Any],
    output_shapes: Sequence[Shape],
    *,
    broker: Broker,
) -> Dataset:
    """Make a dataset of the keys and values of LMDB databases.

    Raises:
        InvalidArgumentError: `filenames` is neither a scalar nor a vector.
    """
    del ctx, output_types, output_shapes
    if filenames.ndim > 1:
        raise InvalidArgumentError("`filenames` must be a scalar or a vector.")
    paths = [as_path(decode(path)) for path in filenames.ravel().tolist()]
    return LmdbRecords(paths, broker)
