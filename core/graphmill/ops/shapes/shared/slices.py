"""The shape of `StridedSlice`.

Semantics: tensorflow/core/util/strided_slice_op.cc (ValidateStridedSliceOp).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError
from graphmill.ops.inference.output_bounds import OutputBound, bounded_by
from graphmill.ops.inference.tensor_shape import UNKNOWN_SHAPE, TensorShape, merged_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphmill.ops.inference.shape_inference import ShapeContext
    from graphmill.ops.inference.tensor_shape import Size


@dataclass(frozen=True, slots=True)
class _Spec:
    """One entry of a slice: `begin:end:step`, a new axis, an index, or the ellipsis."""

    begin: Size
    end: Size
    step: Size
    is_new: bool
    is_ellipsis: bool
    is_index: bool


@bounded_by(OutputBound.INPUT)
def strided_slice(op: ShapeContext) -> TensorShape:
    """Return the shape of `StridedSlice`, NumPy's `x[a:b:c, None, ..., i]`."""
    shape = op.inputs[0]
    count = _entries(op)
    if count is None or shape.dims is None:
        return UNKNOWN_SHAPE
    specs = list(_specs(op, count))
    if sum(spec.is_ellipsis for spec in specs) > 1:
        raise InvalidArgumentError("Multiple ellipses in slice spec not allowed")
    used = sum(not (spec.is_new or spec.is_ellipsis) for spec in specs)
    if used > len(shape.dims):
        raise InvalidArgumentError(
            f"Index out of range using input dim {len(shape.dims)}; input has only "
            f"{len(shape.dims)} dims"
        )
    return TensorShape(_sizes(specs, list(shape.dims), len(shape.dims) - used))


def _entries(op: ShapeContext) -> Size:
    count: Size = None
    for name in ("begin", "end", "strides"):
        count = merged_size(count, op.shape(name).with_rank(1)[0])
    return count


def _specs(op: ShapeContext, count: int) -> Iterator[_Spec]:
    bounds = [_listed(op.partial_value(name), count) for name in ("begin", "end", "strides")]
    masks = {
        name: op.get_attr(f"{name}_mask")
        for name in ("begin", "end", "new_axis", "ellipsis", "shrink_axis")
    }
    for index, (begin, end, step) in enumerate(zip(*bounds, strict=True)):
        bit = 1 << index
        is_ellipsis = bool(masks["ellipsis"] & bit)
        is_new = bool(masks["new_axis"] & bit) and not is_ellipsis
        is_index = bool(masks["shrink_axis"] & bit) and not (is_new or is_ellipsis)
        if step == 0:
            raise InvalidArgumentError(f"strides[{index}] must be non-zero")
        # An omitted bound is a string, to distinguish it from an unknown one, which is None.
        yield _Spec(
            _OMITTED if masks["begin"] & bit and not is_index else begin,
            _OMITTED if masks["end"] & bit else end,
            step,
            is_new,
            is_ellipsis,
            is_index,
        )


_OMITTED: Any = "omitted"


def _sizes(specs: list[_Spec], dims: list[Size], left: int) -> Iterator[Size]:
    axes = iter(dims)
    has_ellipsis = any(spec.is_ellipsis for spec in specs)
    for spec in specs:
        if spec.is_ellipsis:
            for _ in range(left):
                yield next(axes)
        elif spec.is_new:
            yield 1
        elif spec.is_index:
            _check_index(spec.begin, next(axes))
        else:
            yield _length(spec, next(axes))
    if not has_ellipsis:
        yield from axes


def _check_index(index: Size, size: Size) -> None:
    if index is not None and size is not None and not -size <= index < size:
        raise InvalidArgumentError(f"slice index {index} of dimension of size {size} out of bounds")


def _length(spec: _Spec, size: Size) -> Size:
    """Return the number of elements that a range selects from an axis; None if unknown."""
    if spec.step is None:
        return None
    is_all = spec.begin is _OMITTED and spec.end is _OMITTED
    if is_all and abs(spec.step) == 1:
        return size
    if size is None or None in (spec.begin, spec.end):
        return None
    begin = None if spec.begin is _OMITTED else spec.begin
    end = None if spec.end is _OMITTED else spec.end
    return len(range(*slice(begin, end, spec.step).indices(size)))


def _listed(value: Any, count: int) -> list[Size]:
    return [None] * count if value is None else [None if v is None else int(v) for v in value]
