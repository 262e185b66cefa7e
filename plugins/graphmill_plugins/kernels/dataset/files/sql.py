"""Kernels of datasets of the rows of a database query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError
from graphmill.spi.files import as_path
from graphmill_plugins.kernels._strings import decode
from graphmill_plugins.kernels.dataset.pipeline.dataset import dataset_maker, scalar, structure
from graphmill_plugins.kernels.dataset.pipeline.files.sql import QueryRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import OpKernelContext, Shape, Value
    from graphmill.spi.files import Broker
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset


@dataset_maker("SqlDataset", "ExperimentalSqlDataset", effects=("fs.read",), brokered=True)
def sql_dataset(
    ctx: OpKernelContext,
    driver_name: Value,
    data_source_name: Value,
    query: Value,
    output_types: Sequence[Any],
    output_shapes: Sequence[Shape],
    *,
    broker: Broker,
) -> Dataset:
    """Make a dataset of the rows that an SQLite query returns."""
    del ctx
    driver = decode(scalar(driver_name, "driver_name"))
    path = as_path(decode(scalar(data_source_name, "data_source_name")))
    text = decode(scalar(query, "query"))
    if driver != "sqlite":
        raise InvalidArgumentError(
            f"The database type, {driver}, is not supported by SqlDataset. The set of supported "
            "databases is: {'sqlite'}."
        )
    return QueryRows(path, text, structure(output_types, output_shapes), broker)
