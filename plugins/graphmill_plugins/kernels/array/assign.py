"""Assign to slices of variables; values that were read before do not change.

See `graphmill.runtime.resources.exclusive_update`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill.spi import kernel
from graphmill.spi.kernels import writable
from graphmill_plugins.kernels.array.index_plan import index_maker
from graphmill_plugins.kernels.array.slice import assign_slice
from graphmill_plugins.kernels.state.resource import variable_of
from graphmill_plugins.kernels.state.value import initialized

if TYPE_CHECKING:
    from graphmill.spi import Ref, ResourceHandle, Value, Variable


def _assign(
    variable: Variable, begin: Value, end: Value, strides: Value, value: Value, masks: Any
) -> None:
    """Write `value` (broadcast) into a slice of the variable."""
    make_index = index_maker(**masks)
    bounds = (np.asarray(begin), np.asarray(end), np.asarray(strides))
    with variable.lock:
        index = make_index(initialized(variable).shape, *bounds)
        if isinstance(variable.value, np.ndarray | np.generic):
            with writable(variable) as changed:
                assign_slice(changed, index, np.asarray(value), exact=False)
        else:
            variable.value = variable.value.at[index].set(value)


@kernel("StridedSliceAssign", stateful=True, effects={"state"})
def strided_slice_assign(
    _ctx: Any,
    ref: Ref,
    begin: Value,
    end: Value,
    strides: Value,
    value: Value,
    **masks: Any,
) -> Ref:
    """Write into a slice of a ref variable and return the reference."""
    _assign(ref, begin, end, strides, value, _only_masks(masks))
    return ref


@kernel("ResourceStridedSliceAssign", stateful=True, effects={"state"})
def resource_strided_slice_assign(
    _ctx: Any,
    ref: ResourceHandle,
    begin: Value,
    end: Value,
    strides: Value,
    value: Value,
    **masks: Any,
) -> None:
    """Write into a slice of a resource variable."""
    _assign(variable_of(ref), begin, end, strides, value, _only_masks(masks))


def _only_masks(attrs: dict[str, Any]) -> dict[str, int]:
    return {name: value for name, value in attrs.items() if name.endswith("_mask")}
