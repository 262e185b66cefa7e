"""Ops of TensorFlow's data service, which are refused with the reason.

A data service consists of TensorFlow's own dispatcher and workers, which run TensorFlow's kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from graphmill.errors import UnimplementedError
from graphmill_plugins.kernels.dataset.pipeline.dataset import dataset_kernel

if TYPE_CHECKING:
    from graphmill.spi import OpKernelContext


@dataset_kernel(
    "RegisterDataset",
    "RegisterDatasetV2",
    "DataServiceDataset",
    "DataServiceDatasetV2",
    "DataServiceDatasetV3",
    "DataServiceDatasetV4",
    "DistributedSave",
    effects=("net",),
)
def refuse_data_service(ctx: OpKernelContext, *inputs: Any) -> NoReturn:
    """Refuse an op of the data service.

    Raises:
        UnimplementedError: always.
    """
    del inputs
    raise UnimplementedError(
        f"{ctx.op} needs a tf.data service, whose dispatcher and workers are servers of "
        "TensorFlow; graphmill has none and does not connect to them. Divide the dataset among the "
        "workers with `shard`, or with AutoShardDataset and the policy DATA"
    )


@dataset_kernel("IteratorGetModelProto", effects=("state",))
def refuse_model_proto(ctx: OpKernelContext, iterator: Any) -> NoReturn:
    """Refuse to describe the autotuning of an iterator.

    Raises:
        UnimplementedError: always.
    """
    del iterator
    raise UnimplementedError(
        f"{ctx.op} returns the model with which TensorFlow tunes a pipeline; graphmill does not "
        "tune running pipelines and has no such model"
    )
