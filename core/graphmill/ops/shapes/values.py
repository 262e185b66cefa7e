"""Value functions of TensorFlow's ops that compute with shapes.

Semantics: EvaluateConstantTensor and ConstantPartialShape of
tensorflow/core/common_runtime/shape_refiner.cc. Traits imply the values of constants, and of ops
that forward their inputs.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.ops.inference.value_inference import MAX_STATIC_ELEMENTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from graphmill.ops.inference.value_inference import Partial, ValueContext, ValueFunction


def _cast(op: ValueContext) -> Partial:
    return op.integers(0) if op.gives_integers else None


def _shape(op: ValueContext) -> Partial:
    shape = op.shape(op.output)
    return None if shape.dims is None else _vector(shape.dims)


def _rank(op: ValueContext) -> Partial:
    rank = op.shape(0).rank
    return None if rank is None else _number(rank)


def _size(op: ValueContext) -> Partial:
    count = op.shape(0).num_elements()
    return None if count is None else _number(count)


def _pack(op: ValueContext) -> Partial:
    if op.attrs["axis"] not in (0, -1):
        return None
    parts = [op.integers(index) for index in range(op.num_inputs)]
    scalars = [part if part is None or part.ndim == 0 else None for part in parts]
    if any(op.shape(index).rank != 0 for index in range(len(parts))):
        return None
    return _vector([None if part is None else part.item() for part in scalars])


def _concat(op: ValueContext) -> Partial:
    parts = [op.integers(index) for index in range(op.num_inputs - 1)]
    sizes: list[Any] = []
    for index, part in enumerate(parts):
        shape = op.shape(index)
        length = shape[0] if shape.rank == 1 else None
        if part is not None and part.ndim == 1:
            sizes += part.tolist()
        elif length is not None and length <= MAX_STATIC_ELEMENTS:
            sizes += [None] * length
        else:
            return None
    return _vector(sizes)


def _strided_slice(op: ValueContext) -> Partial:
    attrs = op.attrs
    vector, *bounds = (op.integers(index) for index in range(4))
    if vector is None or vector.ndim != 1 or attrs["new_axis_mask"] or attrs["ellipsis_mask"]:
        return None
    if any(bound is None or bound.shape != (1,) or None in bound for bound in bounds):
        return None
    begin, end, step = (bound[0] for bound in bounds)  # type: ignore[index]
    if attrs["shrink_axis_mask"] & 1:
        inside = -len(vector) <= begin < len(vector)
        return _number(vector[begin]) if inside else None
    if step == 0:
        return None
    start = None if attrs["begin_mask"] & 1 else begin
    stop = None if attrs["end_mask"] & 1 else end
    return vector[slice(start, stop, step)]


def _gather(op: ValueContext) -> Partial:
    vector, indices = op.integers(0), op.integers(1)
    if vector is None or vector.ndim != 1 or indices is None or None in indices.flat:
        return None
    if any(not 0 <= index < len(vector) for index in indices.flat):
        return None
    if indices.ndim == 0:
        return _number(vector[indices.item()])
    return _vector([vector[index] for index in indices])


def _expand_dims(op: ValueContext) -> Partial:
    elements = op.integers(0)
    return elements.reshape(1) if elements is not None and elements.ndim == 0 else None


def _reshape(op: ValueContext) -> Partial:
    elements, shape = op.integers(0), op.integers(1)
    if elements is None or shape is None or shape.ndim != 1 or len(shape) > 1:
        return None
    if len(shape) == 0:
        return elements.reshape(()) if elements.size == 1 else None
    return elements.reshape(-1) if shape[0] in (-1, elements.size) else None


def _squeeze(op: ValueContext) -> Partial:
    elements = op.integers(0)
    return elements.reshape(()) if elements is not None and elements.shape == (1,) else None


def _prod(op: ValueContext) -> Partial:
    elements, axes = op.integers(0), op.value(1)
    if elements is None or elements.ndim != 1 or None in elements or op.attrs["keep_dims"]:
        return None
    if axes is None or not axes.size:  # without axes, nothing is reduced
        return None
    return _number(int(np.prod(elements.astype(np.int64))))


def _range(op: ValueContext) -> Partial:
    bounds = [op.integers(index) for index in range(3)]
    if any(bound is None or bound.ndim or bound.item() is None for bound in bounds):
        return None
    numbers = [bound.item() for bound in bounds]  # type: ignore[union-attr]
    if numbers[2] == 0 or abs((numbers[1] - numbers[0]) // numbers[2]) > MAX_STATIC_ELEMENTS:
        return None
    return _vector(list(range(*numbers)))


def _fill(op: ValueContext) -> Partial:
    dims, value = op.integers(0), op.integers(1)
    if (
        dims is None
        or value is None
        or dims.shape != (1,)
        or not 0 <= (dims[0] or -1) <= MAX_STATIC_ELEMENTS
    ):
        return None
    return _vector([value.item()] * dims[0])


def _computed(compute: Callable[[Any, Any], Any]) -> ValueFunction:
    """Return the value function of an op that computes an integer from two others."""
    elementwise = np.frompyfunc(lambda a, b: None if None in (a, b) else compute(a, b), 2, 1)

    def value(op: ValueContext) -> Partial:
        left, right = op.integers(0), op.integers(1)
        if left is None or right is None:
            return None
        if 1 not in (left.size, right.size) and left.shape != right.shape:
            return None
        return np.asarray(elementwise(left, right), object)

    return value


def _number(value: Any) -> NDArray[Any]:
    return np.array(value, object)


def _vector(values: Any) -> NDArray[Any]:
    vector = np.empty(len(values), object)
    vector[:] = values
    return vector


VALUES: Final[dict[str, ValueFunction]] = {
    "Add": _computed(operator.add),
    "AddV2": _computed(operator.add),
    "Sub": _computed(operator.sub),
    "Mul": _computed(operator.mul),
    "Maximum": _computed(max),
    "Minimum": _computed(min),
    "Cast": _cast,
    "Shape": _shape,
    "ShapeN": _shape,
    "Rank": _rank,
    "Size": _size,
    "Pack": _pack,
    "ConcatV2": _concat,
    "StridedSlice": _strided_slice,
    "GatherV2": _gather,
    "ExpandDims": _expand_dims,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Prod": _prod,
    "Range": _range,
    "Fill": _fill,
}
