"""Kernels of datasets that delay elements or take them in separate threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError
from graphmill.spi import ResourceHandle
from graphmill_plugins.kernels.dataset.pipeline.dataset import (
    dataset_kernel,
    dataset_maker,
    dataset_of,
    scalar,
)
from graphmill_plugins.kernels.dataset.pipeline.hint import Hint
from graphmill_plugins.kernels.dataset.pipeline.sleep import Sleep
from graphmill_plugins.kernels.state.value import resource_key

if TYPE_CHECKING:
    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Dataset

_STATE = ("state",)


@dataset_maker("SleepDataset", "ExperimentalSleepDataset", effects=("clock",))
def sleep_dataset(ctx: OpKernelContext, source: Value, sleep_microseconds: Value) -> Dataset:
    """Make a dataset that delays each element."""
    del ctx
    return Sleep(dataset_of(source), int(scalar(sleep_microseconds, "sleep_microseconds")))


class ThreadPoolResource:
    """A thread pool of a graph; its datasets run in the session's threads instead."""


@dataset_kernel("ThreadPoolHandle", "ExperimentalThreadPoolHandle", effects=_STATE)
class ThreadPoolHandleKernel:
    """Return the handle of a thread pool for datasets."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        count = construction.attr("num_threads")
        if count < 0:
            raise InvalidArgumentError(f"`num_threads` must be >= 0, got {count}")
        self._container, self._name = resource_key(construction)

    def __call__(self, ctx: OpKernelContext) -> ResourceHandle:
        """Return the handle."""
        pool = ctx.resources.lookup_or_create(
            self._container, self._name, ThreadPoolResource, ThreadPoolResource
        )
        container = self._container or ctx.resources.default_container
        return ResourceHandle(ctx.device.name, container, self._name, "ThreadPool", pool)


@dataset_maker("ThreadPoolDataset", "ExperimentalThreadPoolDataset", effects=_STATE)
def thread_pool_dataset(ctx: OpKernelContext, source: Value, thread_pool: Any) -> Dataset:
    """Make a dataset of the same elements: its functions run in the session's threads.

    Raises:
        FailedPreconditionError: the thread pool does not exist.
        InvalidArgumentError: the handle is that of something else.
    """
    del ctx
    thread_pool.expect(ThreadPoolResource)
    return Hint(dataset_of(source))
