"""Kernels that consume a whole dataset within a step, or return its length.

Semantics: tensorflow/core/kernels/data/iterator_ops.cc, reduce_dataset_op.cc and
experimental/to_tf_record_op.cc. They run in a thread of the session's pool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from graphmill.errors import CancelledError, InvalidArgumentError, OutOfRangeError
from graphmill.spi.executors import running
from graphmill.spi.files import TFRecordWriter
from graphmill_plugins.kernels._path_strings import scalar_path
from graphmill_plugins.kernels._strings import decode
from graphmill_plugins.kernels.dataset.iterators.ops import element_error
from graphmill_plugins.kernels.dataset.pipeline.background_jobs import Waiter
from graphmill_plugins.kernels.dataset.pipeline.dataset import (
    CapturedFunction,
    Scope,
    dataset_kernel,
    dataset_of,
    scalar,
)
from graphmill_plugins.kernels.lookup.ops import initializable
from graphmill_plugins.kernels.unstack import stacked

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value
    from graphmill_plugins.kernels.dataset.pipeline.dataset import Element

    Done = Callable[..., None]


class ConsumingKernel:
    """Base of kernels that consume a whole dataset in a thread of the session's pool."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        attrs = construction.attrs
        self._function = attrs.get("f")
        self.broker = construction.broker
        self.expected = (attrs.get("output_types", ()), attrs.get("output_shapes", ()))

    def __call__(self, ctx: OpKernelContext, *inputs: Any, done: Done) -> None:
        """Call `done` with the outputs, now or later."""
        pool = ctx.args.runner.pool
        if pool is None:
            done(self.result(ctx, *inputs))
            return
        waiter = Waiter(lambda value, error: done(value) if error is None else done(error=error))

        def work() -> None:
            np.seterr(all="ignore")
            try:
                with running(ctx.cancellation):
                    value = self.result(ctx, *inputs)
            except BaseException as error:  # noqa: BLE001 - raised in the step's thread
                waiter(None, error)
            else:
                waiter(value, None)

        pool.schedule(work)
        waiter.watch(
            ctx.wait(lambda: "the elements of a dataset"),
            lambda: waiter(None, CancelledError("the dataset was cancelled")),
        )

    def result(self, ctx: OpKernelContext, *inputs: Any) -> Any:
        """Return the outputs."""
        raise NotImplementedError


@dataset_kernel("DatasetToSingleElement", async_=True)
class DatasetToSingleElementKernel(ConsumingKernel):
    """Return the only element of a dataset."""

    def result(self, ctx: OpKernelContext, *inputs: Any) -> Any:
        """Return the components of the element."""
        with Iteration(ctx, inputs[0]) as iteration:
            element = iteration.next()
            if element is None:
                raise InvalidArgumentError("Dataset was empty.")
            if iteration.next() is not None:
                raise InvalidArgumentError("Dataset had more than one element.")
        error = element_error(element, *self.expected)
        if error is not None:
            raise error
        return list(element)


@dataset_kernel("ReduceDataset", async_=True)
class ReduceDatasetKernel(ConsumingKernel):
    """Fold a function over the elements: it maps a state and an element to the next state."""

    def result(self, ctx: OpKernelContext, *inputs: Any) -> Any:
        """Return the last state."""
        dataset, state, captured = inputs
        function = CapturedFunction(ctx, self._function, captured)
        with Iteration(ctx, dataset) as iteration:
            while (element := iteration.next()) is not None:
                state = iteration.scope.call(function, [*state, *element])
        error = element_error(tuple(state), *self.expected)
        if error is not None:
            raise error
        return list(state)


@dataset_kernel(
    "DatasetToTFRecord",
    "ExperimentalDatasetToTFRecord",
    async_=True,
    effects=("fs.write",),
    brokered=True,
)
class DatasetToTFRecordKernel(ConsumingKernel):
    """Write the elements of a dataset, one string each, to a TFRecord file."""

    def result(self, ctx: OpKernelContext, *inputs: Any) -> Any:
        """Write the file."""
        dataset, filename, compression = inputs
        path = scalar_path(filename, "filename")
        kind = decode(scalar(compression, "compression_type"))
        file = self.broker.open_stream_writer(path, kind)
        with Iteration(ctx, dataset) as iteration, TFRecordWriter(path, kind, file) as writer:
            while (element := iteration.next()) is not None:
                writer.write(scalar(element[0], "an element"))


@dataset_kernel("DatasetCardinality", "ExperimentalDatasetCardinality")
def dataset_cardinality(ctx: OpKernelContext, dataset: Value) -> Value:
    """Return the number of elements, -1 for infinite and -2 for unknown."""
    del ctx
    return np.int64(dataset_of(dataset).cardinality)


@dataset_kernel("ComputeBatchSize")
def compute_batch_size(ctx: OpKernelContext, dataset: Value) -> Value:
    """Return the batch size that the pipeline declares, -1 if it is unknown."""
    del ctx
    return np.int64(dataset_of(dataset).batch_size)


class Iteration:
    """An iteration over a dataset within a step; leaving the context stops background work."""

    def __init__(self, ctx: OpKernelContext, dataset: Any) -> None:
        self.scope = Scope(ctx)
        self._step = ctx.cancellation
        self.scope.root = dataset_of(dataset)
        self._elements = self.scope.root.iterate(self.scope)

    def next(self) -> Element | None:
        """Return the next element, None at the end."""
        if self._step.is_cancelled:
            raise CancelledError("the step was cancelled within a dataset")
        return self.scope.take_for(self._elements, self._step)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.scope.close()


@dataset_kernel("InitializeTableFromDataset", async_=True, effects=("state",))
class InitializeTableFromDatasetKernel(ConsumingKernel):
    """Fill a table from a dataset of keys and values."""

    def result(self, ctx: OpKernelContext, *inputs: Any) -> Any:
        """Fill the table."""
        handle, dataset = inputs
        table = initializable(ctx, handle)
        source = dataset_of(dataset)
        if len(source.dtypes) != 2:
            raise InvalidArgumentError(
                f"a table is filled from a dataset of keys and values; this one has "
                f"{len(source.dtypes)} components"
            )
        elements = []
        with Iteration(ctx, source) as iteration:
            while (element := iteration.next()) is not None:
                elements.append(element)
        if not elements:
            raise OutOfRangeError("end of iterator: the dataset of keys and values is empty")
        rows = zip(*elements, strict=True)
        table.initialize(
            *(
                stacked(np, list(row), (), dtype)
                for row, dtype in zip(rows, source.dtypes, strict=True)
            )
        )
