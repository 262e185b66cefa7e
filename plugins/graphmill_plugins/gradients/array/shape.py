"""Gradients of ops that reshape, concatenate, tile, slice or permute.

Semantics: tensorflow/python/ops/array_grad.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphmill.ops import array, math
from graphmill.spi import gradient
from graphmill_plugins.gradients._support import as_dense, const

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi.gradients import ForwardOp, Gradient
    from graphmill.spi.graphs import Tensor


@gradient(
    *("Identity", "PreventGradient", "Snapshot", "PlaceholderWithDefault", "RefIdentity"),
    slices=True,
)
def identity(_op: ForwardOp, dy: Gradient) -> Gradient:
    """Return the gradient unchanged."""
    return dy


@gradient(
    "CheckNumerics",
    "CheckNumericsV2",
    "EnsureShape",
    "DebugIdentity",
    "Copy",
    "CopyHost",
    slices=True,
)
def checked(_op: ForwardOp, dy: Gradient) -> Gradient:
    """Return the gradient unchanged."""
    return dy


@gradient("IdentityN", slices=True)
def identity_n(_op: ForwardOp, *dys: Gradient | None) -> Sequence[Gradient | None]:
    """Return the gradients unchanged."""
    return list(dys)


@gradient("Reshape")
def reshape(op: ForwardOp, dy: Gradient) -> list[Tensor | None]:
    """Reshape to the input's shape."""
    return [array.reshape(as_dense(dy), op.shape(op.inputs[0])), None]


@gradient("ExpandDims")
def expand_dims(op: ForwardOp, dy: Gradient) -> list[Tensor | None]:
    """Reshape to the input's shape."""
    return reshape(op, dy)


@gradient("Squeeze")
def squeeze(op: ForwardOp, dy: Gradient) -> Tensor | None:
    """Reshape to the input's shape."""
    return array.reshape(as_dense(dy), op.shape(op.inputs[0]))


@gradient("Transpose")
def transpose(op: ForwardOp, dy: Tensor) -> list[Tensor | None]:
    """Transpose back."""
    return [array.transpose(as_dense(dy), array.invert_permutation(op.inputs[1])), None]


@gradient("ConjugateTranspose")
def conjugate_transpose(op: ForwardOp, dy: Tensor) -> list[Tensor | None]:
    """Transpose back."""
    return [array.conjugate_transpose(dy, array.invert_permutation(op.inputs[1])), None]


@gradient("Fill")
def fill(_op: ForwardOp, dy: Tensor) -> list[Tensor | None]:
    """Sum over all elements."""
    dense_dy = as_dense(dy)
    return [None, math.sum(dense_dy, math.range(0, array.rank(dense_dy), 1))]


@gradient("BroadcastTo")
def broadcast_to(op: ForwardOp, dy: Tensor) -> list[Tensor | None]:
    """Sum over the broadcast dimensions."""
    shape = op.shape(op.inputs[0])
    axes = array.broadcast_gradient_args(shape, op.shape(op.outputs[0])).r0
    return [array.reshape(math.sum(dy, axes), shape), None]


@gradient("Tile")
def tile(op: ForwardOp, dy: Gradient) -> list[Tensor | None]:
    """Sum over the repetitions."""
    dense_dy = as_dense(dy)
    shape = op.shape(op.inputs[0])
    multiples = math.cast(op.inputs[1], DstT="int32")
    pairs = array.reshape(array.transpose(array.pack([multiples, shape]), [1, 0]), [-1])
    axes = math.range(0, array.size(pairs), 2)
    return [array.reshape(math.sum(array.reshape(dense_dy, pairs), axes), shape), None]


@gradient("Pack")
def pack(op: ForwardOp, dy: Gradient) -> list[Tensor]:
    """Unstack the gradient."""
    return array.unpack(as_dense(dy), num=op.get_attr("N"), axis=op.get_attr("axis"))


@gradient("Unpack")
def unpack(op: ForwardOp, *dys: Gradient | None) -> Tensor:
    """Stack the gradients."""
    parts = _without_none(op, dys)
    return array.pack(parts, axis=op.get_attr("axis"))


def _without_none(op: ForwardOp, dys: Sequence[Gradient | None]) -> list[Tensor]:
    return [
        op.zeros(output) if dy is None else as_dense(dy)
        for output, dy in zip(op.outputs, dys, strict=True)
    ]


def _concatenated(op: ForwardOp, dys: Sequence[Gradient | None], axis: Tensor) -> Tensor:
    parts = _without_none(op, dys)
    return parts[0] if len(parts) == 1 else array.concat_v2(parts, axis)


def _joined(op: ForwardOp, dy: Gradient, parts: Sequence[Tensor], axis: Tensor) -> list[Any]:
    dense_dy = as_dense(dy)
    if len(parts) == 1:
        return [dense_dy]
    rank = array.rank(parts[0])
    axis = math.floor_mod(math.cast(axis, DstT="int32"), rank)
    shapes = [op.shape(part) for part in parts]
    starts = array.concat_offset(axis, shapes)
    return [
        array.slice(dense_dy, start, shape) for start, shape in zip(starts, shapes, strict=True)
    ]


@gradient("ConcatV2")
def concat_v2(op: ForwardOp, dy: Gradient) -> list[Any]:
    """Split the gradient into the gradients of the parts."""
    return [*_joined(op, dy, op.inputs[:-1], op.inputs[-1]), None]


@gradient("Concat")
def concat(op: ForwardOp, dy: Gradient) -> list[Any]:
    """Split the gradient into the gradients of the parts."""
    return [None, *_joined(op, dy, op.inputs[1:], op.inputs[0])]


@gradient("Split")
def split(op: ForwardOp, *dys: Gradient | None) -> list[Tensor | None]:
    """Concatenate the gradients of the parts."""
    return [None, _concatenated(op, dys, op.inputs[0])]


@gradient("SplitV")
def split_v(op: ForwardOp, *dys: Gradient | None) -> list[Tensor | None]:
    """Concatenate the gradients of the parts."""
    return [_concatenated(op, dys, op.inputs[2]), None, None]


@gradient("Slice")
def slice_(op: ForwardOp, dy: Gradient) -> list[Tensor | None]:
    """Pad with zeros to the input's shape."""
    before = op.inputs[1]
    shape = math.cast(op.shape(op.inputs[0]), DstT=before.dtype.base_dtype)
    size = math.cast(op.shape(op.outputs[0]), DstT=before.dtype.base_dtype)
    paddings = array.transpose(array.pack([before, shape - size - before]), [1, 0])
    return [array.pad(as_dense(dy), paddings), None, None]


_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


@gradient("StridedSlice")
def strided_slice(op: ForwardOp, dy: Gradient) -> list[Any]:
    """Assign to a slice of zeros."""
    masks = {name: op.get_attr(name) for name in _MASKS}
    x, begin, end, strides = op.inputs
    shape = math.cast(op.shape(x), DstT=begin.dtype.base_dtype)
    dx = array.strided_slice_grad(shape, begin, end, strides, as_dense(dy), **masks)
    return [dx, None, None, None]


@gradient("StridedSliceGrad")
def strided_slice_grad(op: ForwardOp, dy: Gradient) -> list[Any]:
    """Slice the gradient."""
    masks = {name: op.get_attr(name) for name in _MASKS}
    begin, end, strides = op.inputs[1:4]
    ddy = array.strided_slice(as_dense(dy), begin, end, strides, **masks)
    return [None, None, None, None, ddy]


@gradient("Pad", "PadV2")
def pad(op: ForwardOp, dy: Gradient) -> list[Any]:
    """Remove the padding."""
    dense_dy, shape = as_dense(dy), op.shape(op.inputs[0])
    starts = math.cast(op.inputs[1][:, 0], DstT="int32")
    inner = array.slice(dense_dy, starts, shape)
    # As in TensorFlow, the padding value has no gradient.
    return [inner, *[None] * (len(op.inputs) - 1)]


@gradient("MirrorPad")
def mirror_pad(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Add the gradient of the padding to the mirrored elements."""
    return [array.mirror_pad_grad(dy, op.inputs[1], mode=op.get_attr("mode")), None]


@gradient("MirrorPadGrad")
def mirror_pad_grad(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Pad the gradient."""
    return [array.mirror_pad(dy, op.inputs[1], mode=op.get_attr("mode")), None]


@gradient("Reverse", "ReverseV2")
def reverse(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Reverse back."""
    turn = array.reverse if op.type == "Reverse" else array.reverse_v2
    return [turn(dy, op.inputs[1]), None]


@gradient("ReverseSequence")
def reverse_sequence(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Reverse back."""
    dx = array.reverse_sequence(
        dy, op.inputs[1], seq_dim=op.get_attr("seq_dim"), batch_dim=op.get_attr("batch_dim")
    )
    return [dx, None]


@gradient("Roll")
def roll(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Roll back."""
    return [array.roll(dy, -op.inputs[1], op.inputs[2]), None, None]


@gradient("SpaceToBatchND")
def space_to_batch_nd(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Apply the inverse op."""
    return [array.batch_to_space_nd(dy, op.inputs[1], op.inputs[2]), None, None]


@gradient("BatchToSpaceND")
def batch_to_space_nd(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Apply the inverse op."""
    return [array.space_to_batch_nd(dy, op.inputs[1], op.inputs[2]), None, None]


@gradient("SpaceToBatch")
def space_to_batch(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Apply the inverse op."""
    size = op.get_attr("block_size")
    return [array.batch_to_space(dy, op.inputs[1], block_size=size), None]


@gradient("BatchToSpace")
def batch_to_space(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Apply the inverse op."""
    size = op.get_attr("block_size")
    return [array.space_to_batch(dy, op.inputs[1], block_size=size), None]


@gradient("SpaceToDepth")
def space_to_depth(op: ForwardOp, dy: Tensor) -> Tensor:
    """Apply the inverse op."""
    size, form = op.get_attr("block_size"), op.get_attr("data_format")
    return array.depth_to_space(dy, block_size=size, data_format=form)


@gradient("DepthToSpace")
def depth_to_space(op: ForwardOp, dy: Tensor) -> Tensor:
    """Apply the inverse op."""
    size, form = op.get_attr("block_size"), op.get_attr("data_format")
    return array.space_to_depth(dy, block_size=size, data_format=form)


@gradient("Diag")
def diag(_op: ForwardOp, dy: Tensor) -> Tensor:
    """Take the diagonal."""
    return array.diag_part(dy)


@gradient("DiagPart")
def diag_part(_op: ForwardOp, dy: Tensor) -> Tensor:
    """Set the diagonal of zeros."""
    return array.diag(dy)


@gradient("MatrixDiag")
def matrix_diag(_op: ForwardOp, dy: Tensor) -> Tensor:
    """Take the diagonal."""
    return array.matrix_diag_part(dy)


@gradient("MatrixDiagV2")
def matrix_diag_v2(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Take the diagonals."""
    return [array.matrix_diag_part_v2(dy, op.inputs[1], const(dy, 0)), *[None] * 4]


@gradient("MatrixDiagV3")
def matrix_diag_v3(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Take the diagonals."""
    align = op.get_attr("align")
    return [array.matrix_diag_part_v3(dy, op.inputs[1], const(dy, 0), align=align), *[None] * 4]


@gradient("MatrixDiagPart")
def matrix_diag_part(op: ForwardOp, dy: Tensor) -> Tensor:
    """Set the diagonal of zeros."""
    return array.matrix_set_diag(op.zeros(op.inputs[0]), dy)


@gradient("MatrixDiagPartV2", "MatrixDiagPartV3")
def matrix_diag_part_v2(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Set diagonals of zeros."""
    zeros = op.zeros(op.inputs[0])
    if op.type.endswith("V2"):
        return [array.matrix_set_diag_v2(zeros, dy, op.inputs[1]), None, None]
    align = op.get_attr("align")
    return [array.matrix_set_diag_v3(zeros, dy, op.inputs[1], align=align), None, None]


@gradient("MatrixSetDiag")
def matrix_set_diag(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Split into the diagonal's gradient and the rest for the matrix."""
    blank = op.zeros(op.inputs[1])
    return [array.matrix_set_diag(dy, blank), array.matrix_diag_part(dy)]


@gradient("MatrixSetDiagV2", "MatrixSetDiagV3")
def matrix_set_diag_v2(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Split into the diagonals' gradient and the rest for the matrix."""
    blank, k = op.zeros(op.inputs[1]), op.inputs[2]
    if op.type.endswith("V2"):
        return [
            array.matrix_set_diag_v2(dy, blank, k),
            array.matrix_diag_part_v2(dy, k, const(dy, 0)),
            None,
        ]
    align = op.get_attr("align")
    return [
        array.matrix_set_diag_v3(dy, blank, k, align=align),
        array.matrix_diag_part_v3(dy, k, const(dy, 0), align=align),
        None,
    ]


@gradient("MatrixBandPart")
def matrix_band_part(op: ForwardOp, dy: Tensor) -> list[Any]:
    """Keep the band."""
    return [array.matrix_band_part(dy, op.inputs[1], op.inputs[2]), None, None]
