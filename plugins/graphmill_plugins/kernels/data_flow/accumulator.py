"""Kernels of conditional accumulators, which sum gradients from several workers.

Semantics: tensorflow/core/kernels/conditional_accumulator_op.cc,
conditional_accumulator_base_op.h, sparse_conditional_accumulator_op.cc. Taking waits until enough
gradients have arrived, without blocking a thread.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi import Ref, ResourceHandle, kernel
from graphmill_plugins.kernels._strings import string_array
from graphmill_plugins.kernels._support import shape_text
from graphmill_plugins.kernels.data_flow._accumulator import (
    Accumulator,
    DenseAccumulator,
    SparseAccumulator,
)
from graphmill_plugins.kernels.state.value import resource_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value

    Done = Callable[..., None]

_STATE = ("state",)
_TYPES = {"dtype": (dtypes.float16, dtypes.float32, dtypes.float64)}


@kernel(
    "ConditionalAccumulator",
    "ResourceConditionalAccumulator",
    "SparseConditionalAccumulator",
    types=_TYPES,
    stateful=True,
    effects=_STATE,
)
class AccumulatorKernel:
    """Find or create a node's accumulator, and return its handle."""

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._container, self._name = resource_key(construction)
        self._is_resource = construction.op.startswith("Resource")
        is_sparse = construction.op.startswith("Sparse")
        self._kind: type[Accumulator] = SparseAccumulator if is_sparse else DenseAccumulator
        self._dtype = construction.attrs["dtype"]
        self._shape = construction.attrs["shape"]
        self._reduction = construction.attr("reduction_type")

    def __call__(self, ctx: OpKernelContext) -> Any:
        """Return the handle."""
        accumulator = ctx.resources.lookup_or_create(
            self._container,
            self._name,
            Accumulator,  # type: ignore[type-abstract]
            lambda: self._kind(self._name, self._dtype, self._shape, self._reduction),
        )
        self._check_same(accumulator)
        container = self._container or ctx.resources.default_container
        if self._is_resource:
            return ResourceHandle(
                ctx.device.name, container, self._name, "Accumulator", accumulator
            )
        ref = Ref(dtypes.string, (2,), self._name)
        ref.value = string_array([container.encode(), self._name.encode()])
        return ref

    def _check_same(self, accumulator: Accumulator) -> None:
        requested = {"dtype": self._dtype, "shape": self._shape, "reduction": self._reduction}
        for what, expected in requested.items():
            has = getattr(accumulator, what)
            if has != expected or type(accumulator) is not self._kind:
                raise InvalidArgumentError(
                    f"Shared conditional accumulator '{self._name}' is a "
                    f"{type(accumulator).__name__} of {what} {has}, but a "
                    f"{self._kind.__name__} of {expected} was requested; "
                    "use different shared_name attrs for the two"
                )


def accumulator_of(ctx: OpKernelContext, handle: Any) -> Accumulator:
    """Return the accumulator of a handle of either kind.

    Raises:
        NotFoundError: there is none of that name.
        InvalidArgumentError: the handle is not that of an accumulator.
    """
    if type(handle) is ResourceHandle:
        accumulator: Accumulator = handle.expect(Accumulator)
        return accumulator
    names = handle.read() if isinstance(handle, Ref) else handle
    if names.size != 2:
        raise InvalidArgumentError(
            f"Accumulator handle must have two elements, but had shape: {shape_text(names.shape)}"
        )
    container, name = (part.decode() for part in names.ravel().tolist())
    return ctx.resources.lookup(container, name, Accumulator)  # type: ignore[type-abstract]


def _scalar(value: Value, name: str) -> int:
    if np.ndim(value):
        raise InvalidArgumentError(
            f"Argument {name} must be scalar, but had bad shape {shape_text(value.shape)}"
        )
    return int(value)


@kernel(
    "AccumulatorNumAccumulated", "ResourceAccumulatorNumAccumulated", stateful=True, effects=_STATE
)
def num_accumulated(ctx: OpKernelContext, handle: Any) -> Value:
    """Return the number of gradients in the sum."""
    return np.int32(accumulator_of(ctx, handle).count)


@kernel(
    "AccumulatorSetGlobalStep", "ResourceAccumulatorSetGlobalStep", stateful=True, effects=_STATE
)
def set_global_step(ctx: OpKernelContext, handle: Any, new_global_step: Value) -> None:
    """Set the step; older gradients are dropped."""
    accumulator_of(ctx, handle).set_step(_scalar(new_global_step, "new_global_step"))


@kernel(
    "AccumulatorApplyGradient", "ResourceAccumulatorApplyGradient", stateful=True, effects=_STATE
)
def apply_gradient(
    ctx: OpKernelContext, handle: Any, local_step: Value, gradient: Value, dtype: np.dtype[Any]
) -> None:
    """Add a gradient to the sum."""
    accumulator = _typed(ctx, handle, dtype, DenseAccumulator)
    accumulator.apply(_scalar(local_step, "local_step"), gradient)


@kernel("SparseAccumulatorApplyGradient", stateful=True, effects=_STATE)
def sparse_apply_gradient(
    ctx: OpKernelContext,
    handle: Any,
    local_step: Value,
    gradient_indices: Value,
    gradient_values: Value,
    gradient_shape: Value,
    dtype: np.dtype[Any],
    has_known_shape: bool,
) -> None:
    """Add the rows of a sparse gradient to the sum."""
    accumulator = _typed(ctx, handle, dtype, SparseAccumulator)
    step = _scalar(local_step, "local_step")
    accumulator.apply(step, gradient_indices, gradient_values, gradient_shape, has_known_shape)


@kernel(
    "AccumulatorTakeGradient",
    "ResourceAccumulatorTakeGradient",
    async_=True,
    waits=True,
    effects=_STATE,
)
def take_gradient(
    ctx: OpKernelContext, handle: Any, num_required: Value, dtype: np.dtype[Any], done: Done
) -> None:
    """Return the sum or mean once enough gradients have arrived, and reset it."""
    accumulator = _typed(ctx, handle, dtype, DenseAccumulator)
    required = _scalar(num_required, "num_required")
    accumulator.take(required, done, ctx.wait(partial(accumulator.awaited, required)))


@kernel("SparseAccumulatorTakeGradient", async_=True, waits=True, effects=_STATE)
def sparse_take_gradient(
    ctx: OpKernelContext, handle: Any, num_required: Value, dtype: np.dtype[Any], done: Done
) -> None:
    """Return indices, rows and shape once enough gradients have arrived, and reset the sum."""
    accumulator = _typed(ctx, handle, dtype, SparseAccumulator)
    required = _scalar(num_required, "num_required")
    accumulator.take(required, done, ctx.wait(partial(accumulator.awaited, required)))


def _typed(
    ctx: OpKernelContext, handle: Any, dtype: np.dtype[Any], kind: type[Accumulator]
) -> Accumulator:
    accumulator = accumulator_of(ctx, handle)
    if accumulator.dtype is not dtypes.as_dtype(dtype) or not isinstance(accumulator, kind):
        raise InvalidArgumentError(
            f"accumulator '{accumulator.name}' is a {type(accumulator).__name__} of "
            f"{accumulator.dtype.name}, expected a {kind.__name__} of {dtypes.as_dtype(dtype).name}"
        )
    return accumulator
