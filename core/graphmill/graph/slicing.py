"""Slice tensors with `x[1:, ..., None, -1]` or tensors as indices, by `StridedSlice` nodes.

Semantics: _slice_helper in tensorflow/python/ops/array_ops.py.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.ops import array, math
from graphmill.ops.inputs.default_graph import SymbolicTensor

if TYPE_CHECKING:
    from graphmill.graph.tensor import Tensor

_INT32_LIMIT = 2**31


def strided_slice(tensor: Tensor, key: Any) -> Tensor:
    """Return the part of a tensor that `tensor[key]` denotes.

    Raises:
        TypeError: an index is not an int, slice, scalar integer tensor, `...` or None.
        InvalidArgumentError: a step is 0, or there is more than one `...`.
    """
    spec = _Spec(tensor)
    for item in key if isinstance(key, tuple) else (key,):
        spec.add(item)
    return spec.build()


class _Spec:
    """The inputs and masks of a StridedSlice, item by item."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.begin: list[Any] = []
        self.end: list[Any] = []
        self.strides: list[Any] = []
        self.masks: dict[str, int] = dict.fromkeys(
            ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"), 0
        )

    def add(self, item: Any) -> None:
        """Add one item of the key."""
        if isinstance(item, slice):
            self._add_slice(item)
        elif item is Ellipsis:
            if self.masks["ellipsis_mask"]:
                raise InvalidArgumentError("a slice can have only one '...'")
            self._append(0, 0, 1, "ellipsis_mask")
        elif item is None:
            self._append(0, 0, 1, "new_axis_mask")
        else:
            index = _index(item)
            self._append(index, _Following(index), 1, "shrink_axis_mask")

    def _add_slice(self, item: slice) -> None:
        begin = 0 if item.start is None else _index(item.start)
        end = 0 if item.stop is None else _index(item.stop)
        step = 1 if item.step is None else _index(item.step)
        if isinstance(step, int) and step == 0:
            raise InvalidArgumentError("the step of a slice cannot be 0")
        open_ends = [
            mask
            for mask, bound in (("begin_mask", item.start), ("end_mask", item.stop))
            if bound is None
        ]
        self._append(begin, end, step, *open_ends)

    def _append(self, begin: Any, end: Any, step: Any, *masks: str) -> None:
        for mask in masks:
            self.masks[mask] |= 1 << len(self.begin)
        self.begin.append(begin)
        self.end.append(end)
        self.strides.append(step)

    def build(self) -> Tensor:
        """Add the node."""
        bounds = (self.begin, self.end, self.strides)
        dtype = (
            dtypes.int64 if any(_is_wide(b) for bound in bounds for b in bound) else dtypes.int32
        )
        self.end = [end.make() if isinstance(end, _Following) else end for end in self.end]
        vectors = {"stack": self.begin, "stack_1": self.end, "stack_2": self.strides}
        with self.tensor.graph.name_scope("strided_slice") as scope:
            vectors_of_bounds = [
                self._vector(items, dtype, name) for name, items in vectors.items()
            ]
            return array.strided_slice(self.tensor, *vectors_of_bounds, name=scope, **self.masks)

    def _vector(self, items: list[Any], dtype: dtypes.DType, name: str) -> Tensor:
        """Return a vector of ints and scalar tensors: one Const, or a Pack."""
        if not any(isinstance(item, SymbolicTensor) for item in items):
            return self.tensor.graph.constant(np.array(items, dtype.as_numpy_dtype), name=name)
        return array.pack([_cast(item, dtype) for item in items], name=name)


class _Following:
    """The index after another one: the end of a slice of one element."""

    def __init__(self, index: Any) -> None:
        self.index = index

    def make(self) -> Any:
        """Return the index as an int or a tensor."""
        return self.index + 1


def _index(item: Any) -> Any:
    """Return an index as an int or a tensor."""
    if isinstance(item, SymbolicTensor):
        if item.dtype.base_dtype not in (dtypes.int32, dtypes.int64):
            raise TypeError(f"an index must be of int32 or int64, {item!r} is not")
        return item
    if not isinstance(item, (bool, np.bool_)):
        try:
            return operator.index(item)
        except TypeError:
            pass
    raise TypeError(
        f"{item!r} cannot index a tensor; indices are ints, slices, '...', None and scalar integer "
        "tensors (for lists of indices use graphmill.ops.array.gather_v2 or gather_nd)"
    )


def _is_wide(bound: Any) -> bool:
    if isinstance(bound, _Following):
        return _is_wide(bound.index)
    if isinstance(bound, SymbolicTensor):
        return bound.dtype.base_dtype is dtypes.int64
    return not -_INT32_LIMIT <= bound < _INT32_LIMIT - 1


def _cast(item: Any, dtype: dtypes.DType) -> Any:
    if isinstance(item, SymbolicTensor) and item.dtype.base_dtype is not dtype:
        return math.cast(item, DstT=dtype)
    return item
