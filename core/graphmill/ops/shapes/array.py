"""Shapes of ops that create, slice, concatenate and rearrange tensors.

Semantics: tensorflow/core/ops/array_ops.cc and common_shape_fns.cc.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import InvalidArgumentError
from graphmill.ops.inference.output_bounds import OutputBound, bounded_by
from graphmill.ops.inference.tensor_shape import UNKNOWN_SHAPE, TensorShape, merged_size
from graphmill.ops.shapes.shared import blocks, common, diagonals
from graphmill.ops.shapes.shared.paddings import with_paddings, with_pads
from graphmill.ops.shapes.shared.slices import strided_slice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.ops.inference.shape_inference import ShapeContext, ShapeFunction
    from graphmill.ops.inference.tensor_shape import Size

_UNCHANGED = """
    BatchMatrixBandPart BatchMatrixSetDiag CheckNumerics CheckNumericsV2 DebugGradientIdentity
    DebugGradientRefIdentity DeepCopy GuaranteeConst Identity InplaceAdd InplaceSub InplaceUpdate
    MatrixBandPart OnesLike PreventGradient RefIdentity Reverse Snapshot StopGradient
    StridedSliceAssign TensorStridedSliceUpdate ZerosLike
"""
_SCATTERED = """
    ScatterNdNonAliasingAdd TensorScatterAdd TensorScatterMax TensorScatterMin TensorScatterSub
    TensorScatterUpdate
"""


def constant(op: ShapeContext) -> TensorShape:
    """Return the shape of a constant."""
    return TensorShape(op.get_attr("value").shape)


def with_default(op: ShapeContext) -> TensorShape:
    """Return the shape of a `PlaceholderWithDefault`; its default must be compatible."""
    shape = TensorShape(op.get_attr("shape"))
    op.inputs[0].merge_with(shape)
    return shape


def shape_of(op: ShapeContext) -> Any:
    """Return the shapes of shapes: vectors whose lengths are the ranks."""
    shapes = [TensorShape((shape.rank,)) for shape in op.inputs]
    return shapes[0] if op.num_outputs == 1 else shapes


def filled(op: ShapeContext) -> TensorShape:
    """Return the shape of `Fill`; `dims` may be a scalar, the length of a vector."""
    dims = op.partial_value("dims")
    if dims is not None and dims.ndim == 0:
        return TensorShape((dims.item(),))
    return op.value_as_shape("dims") if op.inputs[0].rank == 1 else UNKNOWN_SHAPE


def broadcast_to(op: ShapeContext) -> TensorShape:
    """Return the shape of `BroadcastTo`; each size of the input is that of the result, or one."""
    shape, result = op.inputs[0], op.value_as_shape("shape")
    if shape.dims is None or result.dims is None:
        return result
    shape.with_rank_at_most(len(result.dims))
    for size, wanted in zip(reversed(shape.dims), reversed(result.dims), strict=False):
        if size is not None and size > 1:
            merged_size(size, wanted)
    return result


@bounded_by(OutputBound.INPUT)
def ensured(op: ShapeContext) -> TensorShape:
    """Return the shape of `EnsureShape`."""
    return op.inputs[0].merge_with(op.get_attr("shape"))


@bounded_by(OutputBound.INPUT)
def reshaped(op: ShapeContext) -> TensorShape:
    """Return the shape of `Reshape`; a size of -1 is computed if the others are static."""
    requested = op.partial_value("shape")
    if requested is None and op.shape("shape").dims != (0,):
        return op.value_as_shape("shape")
    sizes = [] if requested is None else requested.reshape(-1).tolist()
    given = [None if size == -1 else size for size in sizes]
    free = sizes.count(-1)
    if op.inputs[0].dims is not None:
        size = _free_size(op.inputs[0].dims, given)
        if free == 1 and given.count(None) == 1:
            given[given.index(None)] = size
    return TensorShape(given)


def _free_size(source: Sequence[Size], target: Sequence[Size]) -> Size:
    """Return the only unknown size of a shape with as many elements as another one, or None.

    Raises:
        InvalidArgumentError: they cannot have equally many.
    """
    (count, unknown), (wanted, free) = _known_part(source), _known_part(target)
    is_wrong = False
    if not unknown and not free:
        is_wrong = count != wanted
    elif not unknown and free == 1:
        is_wrong = bool(count % wanted)
    elif unknown == 1 and not free:
        is_wrong = bool(wanted % count)
    if is_wrong:
        raise InvalidArgumentError(
            f"Cannot reshape a tensor of shape {TensorShape(source)} to {TensorShape(target)}"
        )
    return count // wanted if not unknown and free == 1 else None


def _known_part(sizes: Sequence[Size]) -> tuple[int, int]:
    """Return the product of the known sizes, and how many are unknown; none if one is zero."""
    known = [size for size in sizes if size is not None]
    return math.prod(known), 0 if 0 in known else len(sizes) - len(known)


@bounded_by(OutputBound.INPUT)
def expanded(op: ShapeContext) -> TensorShape:
    """Return the shape of `ExpandDims`."""
    shape, axis = op.inputs[0], common.integer(op, "dim")
    if shape.dims is None:
        return UNKNOWN_SHAPE
    rank = len(shape.dims) + 1
    if axis is None:
        return TensorShape((None,) * rank)
    return shape.with_new_axis(common.axis_in(axis, rank), 1)


@bounded_by(OutputBound.INPUT)
def squeezed(op: ShapeContext) -> TensorShape:
    """Return the shape of `Squeeze`."""
    shape = op.inputs[0]
    if shape.dims is None:
        return UNKNOWN_SHAPE
    axes = {common.axis_in(axis, len(shape.dims)) for axis in op.get_attr("squeeze_dims")}
    if not axes:
        if None in shape.dims:
            return UNKNOWN_SHAPE
        return TensorShape(size for size in shape.dims if size != 1)
    for axis in axes:
        if shape.dims[axis] not in (None, 1):
            raise InvalidArgumentError(
                f"Can not squeeze dim[{axis}], expected a dimension of 1, got {shape.dims[axis]}"
            )
    return TensorShape(size for axis, size in enumerate(shape.dims) if axis not in axes)


@bounded_by(OutputBound.INPUT)
def transposed(op: ShapeContext) -> TensorShape:
    """Return the shape of `Transpose`."""
    shape, order = op.inputs[0], common.integers(op, "perm")
    if order is None:
        rank = shape.rank if shape.rank is not None else op.shape("perm")[0]
        return UNKNOWN_SHAPE if rank is None else TensorShape((None,) * rank)
    dims = shape.with_rank(len(order)).as_list()
    axes = [common.axis_in(axis, len(order)) for axis in order]
    return TensorShape(dims[axis] for axis in axes)


def concatenated(op: ShapeContext) -> TensorShape:
    """Return the shape of `ConcatV2`, `Concat`, and the same of quantized values."""
    name = "axis" if op.type.endswith("V2") else "concat_dim"
    parts, axis = op.shapes("values"), common.integer(op, name)
    ranks = {part.rank for part in parts if part.rank is not None}
    if not ranks:
        return UNKNOWN_SHAPE
    rank = min(ranks)
    parts = [part.with_rank(rank) for part in parts]
    if axis is None:
        return TensorShape((None,) * rank) if rank else UNKNOWN_SHAPE
    index = common.axis_in(axis, rank)
    others = TensorShape((None,) * (rank - 1))
    total: Size = 0
    for part in parts:
        others = others.merge_with(part.with_axis(index))
        size = part[index]
        total = None if size is None or total is None else total + size
    return others.with_new_axis(index, total)


def packed(op: ShapeContext) -> TensorShape:
    """Return the shape of `Pack`."""
    part = common.all_equal(op)
    if part.dims is None:
        return UNKNOWN_SHAPE
    axis = common.axis_in(op.get_attr("axis"), len(part.dims) + 1)
    return part.with_new_axis(axis, len(op.inputs))


@bounded_by(OutputBound.INPUT)
def unpacked(op: ShapeContext) -> Any:
    """Return the shapes of the parts of `Unpack`."""
    shape = op.inputs[0]
    part = UNKNOWN_SHAPE
    if shape.dims is not None:
        axis = common.axis_in(op.get_attr("axis"), len(shape.dims))
        merged_size(shape[axis], op.num_outputs)
        part = shape.with_axis(axis)
    return part if op.num_outputs == 1 else [part] * op.num_outputs


@bounded_by(OutputBound.INPUT)
def split(op: ShapeContext) -> Any:
    """Return the shapes of the equal parts of `Split`."""
    shape, axis = op.shape("value"), common.integer(op, "split_dim")
    part = UNKNOWN_SHAPE
    if shape.dims is not None:
        part = TensorShape((None,) * len(shape.dims))
        if axis is not None:
            index = common.axis_in(axis, len(shape.dims))
            size = shape[index]
            if size is not None and size % op.num_outputs:
                raise InvalidArgumentError(
                    "Number of ways to split should evenly divide the split dimension, but got "
                    f"split_dim {index} (size = {size}) and num_split {op.num_outputs}"
                )
            each = None if size is None else size // op.num_outputs
            part = shape.with_axis(index, each)
    return part if op.num_outputs == 1 else [part] * op.num_outputs


@bounded_by(OutputBound.INPUT)
def split_by_sizes(op: ShapeContext) -> Any:
    """Return the shapes of the parts of `SplitV`."""
    shape, axis = op.shape("value"), common.integer(op, "split_dim")
    sizes = common.integers(op, "size_splits")
    if shape.dims is None or axis is None:
        rank = shape.rank
        parts = [UNKNOWN_SHAPE if rank is None else TensorShape((None,) * rank)] * op.num_outputs
    else:
        index = common.axis_in(axis, len(shape.dims))
        lengths = _free_size_filled(sizes, shape[index], op.num_outputs)
        parts = [shape.with_axis(index, size) for size in lengths]
    return parts[0] if op.num_outputs == 1 else parts


@bounded_by(OutputBound.INPUT)
def sliced(op: ShapeContext) -> TensorShape:
    """Return the shape of `Slice`."""
    shape = op.inputs[0]
    begin, size = op.partial_value("begin"), op.partial_value("size")
    for name in ("begin", "size"):
        op.shape(name).with_rank(1)
    if shape.dims is None:
        count = op.shape("begin")[0] if op.shape("begin").rank == 1 else None
        shape = TensorShape(None if count is None else (None,) * count)
    if shape.dims is None:
        return UNKNOWN_SHAPE
    none = [None] * len(shape.dims)
    starts = none if begin is None else begin.tolist()
    sizes = none if size is None else size.tolist()
    if not len(starts) == len(sizes) == len(shape.dims):
        raise InvalidArgumentError(
            f"begin and size must have {len(shape.dims)} elements, the rank of the input"
        )
    return TensorShape(map(_cut, shape.dims, starts, sizes))


def padded(op: ShapeContext) -> TensorShape:
    """Return the shape of `Pad`, `PadV2` and `MirrorPad`."""
    return with_paddings(op, op.inputs[0])


def tiled(op: ShapeContext) -> TensorShape:
    """Return the shape of `Tile`."""
    shape, times = op.inputs[0], op.partial_value("multiples")
    if times is None:
        rank = shape.rank if shape.rank is not None else op.shape("multiples").with_rank(1)[0]
        return UNKNOWN_SHAPE if rank is None else TensorShape((None,) * rank)
    ranked = shape.with_rank(len(times))
    return TensorShape(
        common.product((size, many)) for size, many in zip(ranked, times.tolist(), strict=True)
    )


def gathered(op: ShapeContext) -> TensorShape:
    """Return the shape of `Gather` and `GatherV2`."""
    params, indices = op.shape("params").with_rank_at_least(1), op.shape("indices")
    axis = 0 if op.type == "Gather" else common.integer(op, "axis")
    batch = 0 if op.type == "Gather" else op.get_attr("batch_dims")
    if params.dims is None or indices.dims is None:
        return UNKNOWN_SHAPE
    batch = batch + len(indices.dims) if batch < 0 else batch
    if axis is None:
        return TensorShape((None,) * (len(params.dims) - 1 + len(indices.dims) - batch))
    index = common.axis_in(axis, len(params.dims))
    return params[:index] + indices[batch:] + params[index + 1 :]


def gathered_slices(op: ShapeContext) -> TensorShape:
    """Return the shape of `GatherNd`."""
    params, indices = op.inputs[0], op.inputs[1].with_rank_at_least(1)
    if params.dims is None or indices.dims is None or indices.dims[-1] is None:
        return UNKNOWN_SHAPE
    depth = indices.dims[-1]
    if depth > len(params.dims):
        raise InvalidArgumentError(
            f"indices.shape[-1] must be <= params.rank, but saw {depth} and {len(params.dims)}"
        )
    return indices[:-1] + params[depth:]


def one_hot(op: ShapeContext) -> TensorShape:
    """Return the shape of `OneHot`."""
    shape, depth = op.inputs[0], common.integer(op, "depth")
    axis = op.get_attr("axis")
    if depth is not None and depth < 0:
        raise InvalidArgumentError(f"depth must be non-negative, got: {depth}")
    if axis < -1:
        raise InvalidArgumentError(f"axis must be >= -1, got {axis}")
    if shape.dims is None:
        return UNKNOWN_SHAPE
    axis = common.axis_in(axis, len(shape.dims) + 1)
    return shape.with_new_axis(axis, depth)


def where(op: ShapeContext) -> TensorShape:
    """Return the shape of `Where`: a row for each true element."""
    return TensorShape((None, op.inputs[0].rank))


def diagonal_matrix(op: ShapeContext) -> TensorShape:
    """Return the shape of `Diag`: the input's axes twice."""
    return op.inputs[0] + op.inputs[0]


def unique(op: ShapeContext) -> Any:
    """Return the shapes of the outputs of `Unique`."""
    counts = [(None,)] if op.num_outputs == 3 else []
    return [(None,), op.inputs[0].with_rank(1), *counts]


def bitcast(op: ShapeContext) -> TensorShape:
    """Return the shape of `Bitcast`: it adds or removes a last axis if the widths differ."""
    source, target = (op.get_attr(name).size for name in ("T", "type"))
    if source == target:
        return op.inputs[0]
    if source > target:
        return op.inputs[0].concatenate([source // target])
    merged_size(op.inputs[0].with_rank_at_least(1)[-1], target // source)
    return op.inputs[0][:-1]


def _cut(size: Size, start: Size, length: Size) -> Size:
    """Return the size of a slice along an axis; a length of -1 takes all remaining elements."""
    if length is None or (length == -1 and (size is None or start is None)):
        return None
    if length == -1:
        return common.sized(size, lambda n: n - start)  # type: ignore[operator]
    if length < 0 or (None not in (size, start) and start + length > size):  # type: ignore[operator]
        raise InvalidArgumentError(
            f"a slice of {length} elements from index {start} exceeds a dimension of size {size}"
        )
    return length


def _free_size_filled(sizes: list[int] | None, whole: Size, count: int) -> Sequence[Size]:
    """Return the sizes of parts; one of them may be -1, for the remaining elements."""
    if sizes is None:
        return [whole if count == 1 else None] * count
    if len(sizes) != count:
        raise InvalidArgumentError(f"size_splits has {len(sizes)} elements for {count} parts")
    if -1 not in sizes:
        merged_size(whole, sum(sizes))
        return sizes
    left = common.sized(whole, lambda n: n - sum(sizes) - 1)
    return [left if size == -1 else size for size in sizes]


def broadcast_sizes(op: ShapeContext) -> TensorShape:
    """Return the shape of `BroadcastArgs`: as many sizes as the longer input."""
    first, second = (shape.with_rank(1)[0] for shape in op.inputs)
    return TensorShape((None if first is None or second is None else max(first, second),))


@bounded_by(OutputBound.INPUT)
def rolled(op: ShapeContext) -> TensorShape:
    """Return the shape of a rolled tensor, which cannot be a scalar."""
    return op.inputs[0].with_rank_at_least(1)


@bounded_by(OutputBound.INPUT)
def scattered(op: ShapeContext) -> TensorShape:
    """Return the shape of a tensor into which slices are scattered, after a check of these."""
    tensor, indices, updates = op.inputs
    _check_scattered(tensor.with_rank_at_least(1), indices, updates)
    return tensor


def scattered_zeros(op: ShapeContext) -> TensorShape:
    """Return the shape of `ScatterNd`, after a check of its slices."""
    tensor = op.value_as_shape("shape")
    _check_scattered(tensor, op.shape("indices"), op.shape("updates"))
    return tensor


def _check_scattered(tensor: TensorShape, indices: TensorShape, updates: TensorShape) -> None:
    indices.with_rank_at_least(1)
    if tensor.num_elements() == 0 and (indices.num_elements() or updates.num_elements()):
        raise InvalidArgumentError("Indices and updates specified for empty input")
    if indices.dims is None or updates.dims is None:
        return
    outer, depth = len(indices.dims) - 1, indices[-1]
    indices[:outer].merge_with(updates[:outer])
    if depth is not None and tensor.dims is not None:
        tensor[depth:].merge_with(updates[outer:])


def volume_patches(op: ShapeContext) -> TensorShape:
    """Return the shape of `ExtractVolumePatches`: all values of a patch in the last axis."""
    windows, strides = op.get_attr("ksizes"), op.get_attr("strides")
    if len(windows) != 5 or len(strides) != 5:
        raise InvalidArgumentError(f"ksizes and strides must have 5 values: {windows}, {strides}")
    count, *sizes, depth = op.inputs[0].with_rank(5)
    is_same = op.get_attr("padding") == b"SAME"
    places = common.window_counts(sizes, windows[1:4], strides[1:4], is_same=is_same)
    return TensorShape((count, *places, common.product((depth, *windows[1:4]))))


@bounded_by(OutputBound.INPUT)
def reversed_axes(op: ShapeContext) -> TensorShape:
    """Return the shape of `ReverseV2`, after a check of its axes."""
    shape, axes = op.inputs[0], common.integers(op, "axis")
    if shape.dims is not None and axes is not None:
        chosen = [common.axis_in(axis, len(shape.dims)) for axis in axes]
        for axis in chosen:
            if chosen.count(axis) > 1:
                raise InvalidArgumentError(f"axis {axis} specified more than once.")
    return shape


def pads_removed(op: ShapeContext) -> TensorShape:
    """Return the shape of `MirrorPadGrad`: without what was added on both sides."""
    shape, pads = op.inputs[0], op.value("paddings")
    rank = op.shape("paddings").with_rank(2)[0]
    if rank is None:
        return UNKNOWN_SHAPE
    op.shape("paddings").merge_with((rank, 2))
    if pads is None:
        return TensorShape((None,) * rank)
    return TensorShape(map(with_pads, shape.with_rank(rank), (-pads).tolist()))


@bounded_by(OutputBound.INPUT)
def reversed_sequences(op: ShapeContext) -> TensorShape:
    """Return the shape of `ReverseSequence`, which has a length for each element of a batch."""
    shape, lengths = op.inputs[0], op.shape("seq_lengths").with_rank(1)
    batch, sequence = op.get_attr("batch_dim"), op.get_attr("seq_dim")
    if shape.dims is None:
        return UNKNOWN_SHAPE
    if batch < 0:
        raise InvalidArgumentError(f"batch_dim must be >= 0, got {batch}")
    for name, axis in (("batch_dim", batch), ("seq_dim", sequence)):
        if axis >= len(shape.dims):
            raise InvalidArgumentError(f"{name} must be < input rank: {axis} vs. {len(shape.dims)}")
    return shape.with_axis(batch, merged_size(shape[batch], lengths[0]))


@bounded_by(OutputBound.INPUT)
def diagonal_part(op: ShapeContext) -> TensorShape:
    """Return the shape of `DiagPart`: one half of the axes, which are those of the other half."""
    shape = op.inputs[0]
    if shape.dims is None:
        return UNKNOWN_SHAPE
    half, is_odd = divmod(len(shape.dims), 2)
    if is_odd or not half:
        raise InvalidArgumentError(
            f"Input must have even and non-zero rank, input rank is {len(shape.dims)}"
        )
    return shape[:half].merge_with(shape[half:])


SHAPES: Final[dict[str, ShapeFunction]] = common.table(
    (_UNCHANGED, common.unchanged),
    ("IdentityN", common.each_unchanged),
    ("Const HostConst", constant),
    ("Placeholder PlaceholderV2 ImmutableConst", common.shape_attr("shape")),
    ("PlaceholderWithDefault", with_default),
    ("Shape ShapeN", shape_of),
    ("Rank Size", common.scalars),
    ("Fill", filled),
    ("Empty", lambda op: op.value_as_shape("shape")),
    ("BroadcastTo", broadcast_to),
    ("ScatterNd", scattered_zeros),
    ("EnsureShape", ensured),
    ("Reshape", reshaped),
    ("ExpandDims", expanded),
    ("Squeeze", squeezed),
    ("Transpose ConjugateTranspose", transposed),
    ("Concat ConcatV2", concatenated),
    ("Pack", packed),
    ("Unpack", unpacked),
    ("Split", split),
    ("SplitV", split_by_sizes),
    ("Slice", sliced),
    ("StridedSlice", strided_slice),
    ("Pad PadV2 MirrorPad", padded),
    ("MirrorPadGrad", pads_removed),
    ("Tile", common.with_ranks(tiled, multiples=1)),
    ("InvertPermutation", common.of_rank(1)),
    ("ExtractVolumePatches", volume_patches),
    ("ReverseV2", common.with_ranks(reversed_axes, axis=1)),
    ("Roll", common.with_ranks(rolled, shift=(0, 1), axis=(0, 1))),
    (_SCATTERED, scattered),
    ("ReverseSequence", reversed_sequences),
    ("DiagPart", diagonal_part),
    ("Gather GatherV2", gathered),
    ("GatherNd", gathered_slices),
    ("OneHot", common.with_ranks(one_hot, depth=0)),
    ("Where", where),
    ("BroadcastArgs", broadcast_sizes),
    ("ListDiff", lambda _: [TensorShape((None,)), TensorShape((None,))]),
    ("LowerBound UpperBound", common.like_input(1)),
    ("Diag", diagonal_matrix),
    ("Unique UniqueWithCounts", unique),
    ("SpaceToDepth", blocks.space_to_depth),
    ("DepthToSpace", blocks.depth_to_space),
    ("SpaceToBatch SpaceToBatchND", blocks.space_to_batch),
    ("BatchToSpace BatchToSpaceND", blocks.batch_to_space),
    ("MatrixDiagPartV2 MatrixDiagPartV3", diagonals.diagonals_read),
    ("MatrixDiagV3", diagonals.matrix_of_diagonals),
    ("MatrixSetDiag", diagonals.diagonal_written),
    ("MatrixSetDiagV2 MatrixSetDiagV3", diagonals.diagonals_written),
    ("Bitcast", bitcast),
    (
        "BatchMatrixDiag MatrixDiag",
        lambda op: op.inputs[0] + op.inputs[0].with_rank_at_least(1)[-1:],
    ),
)
