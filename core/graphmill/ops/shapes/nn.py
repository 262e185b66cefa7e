"""Shapes of convolutions, pooling, normalizations and losses.

Semantics: tensorflow/core/ops/nn_ops.cc and common_shape_fns.cc.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from graphmill.errors import InvalidArgumentError
from graphmill.ops.inference.output_bounds import OutputBound, bounded_by
from graphmill.ops.inference.tensor_shape import SCALAR, UNKNOWN_SHAPE, TensorShape, merged_size
from graphmill.ops.shapes.shared import common
from graphmill.ops.shapes.shared.blocks import divided
from graphmill.ops.shapes.shared.paddings import with_paddings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.ops.inference.shape_inference import ShapeContext, ShapeFunction
    from graphmill.ops.inference.tensor_shape import Size

_UNCHANGED = "Elu LeakyRelu LogSoftmax Relu Relu6 Selu Softmax Softplus Softsign"
_DEPTHWISE = """
    DepthwiseConv2dNative QuantizedDepthwiseConv2D QuantizedDepthwiseConv2DWithBias
    QuantizedDepthwiseConv2DWithBiasAndRelu QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize
    _FusedDepthwiseConv2dNative
"""
_GRADIENTS = "EluGrad LeakyReluGrad Relu6Grad ReluGrad SeluGrad SoftplusGrad SoftsignGrad"


def convolution(op: ShapeContext) -> TensorShape:
    """Return the shape of a convolution with 2 or 3 spatial axes; a depthwise one has 2."""
    layout = _layout(op)
    if layout is None:
        return UNKNOWN_SHAPE
    shape, kernel = (one.with_rank(len(layout)) for one in op.inputs[:2])
    channels = shape[layout.index("C")]
    if op.type in _DEPTHWISE.split():
        merged_size(channels, kernel[-2])
        depth = common.product((kernel[-2], kernel[-1]))
    else:
        depth = kernel[-1]
        _check_groups(channels, kernel[-2], depth)
    return _windowed(op, shape, layout, kernel[:-2].as_list(), depth)


def fused_convolution(op: ShapeContext) -> TensorShape:
    """Return the shape of a convolution of padded images, which may be resized before."""
    shape, kernel = op.inputs[0].with_rank(4), op.shape("filter").with_rank(4)
    if op.type == "FusedResizeAndPadConv2D":
        size = op.value_as_shape("size").with_rank(2)
        shape = TensorShape((shape[0],)) + size + (shape[3],)
    padded = with_paddings(op, shape)
    merged_size(padded[3], kernel[2])
    return _windowed(op, padded, "NHWC", kernel[:2].as_list(), kernel[3])


def _check_groups(channels: Size, depth: Size, filters: Size) -> None:
    """Check the channels of a convolution, whose filters may be divided into groups.

    Raises:
        InvalidArgumentError: channels or filters cannot be divided so.
    """
    if channels is None or depth is None or channels == depth != 0:
        return
    if not depth or channels % depth:
        raise InvalidArgumentError(
            f"Depth of input ({channels}) is not a multiple of input depth of filter ({depth})"
        )
    if filters is not None and (not channels or filters % (channels // depth)):
        raise InvalidArgumentError(
            f"Depth of output ({filters}) is not a multiple of the number of groups "
            f"({channels // depth})"
        )


def convolved_input(op: ShapeContext) -> TensorShape:
    """Return the shape of a convolution's input gradient; unknown if only two sizes are given."""
    shape = op.value_as_shape("input_sizes")
    return shape if shape.rank == 4 else TensorShape((None,) * 4)


def convolved_images(op: ShapeContext) -> TensorShape:
    """Return the shape of `Conv2DBackpropInput`, after a check of batch and channels."""
    gradient, layout = op.shape("out_backprop").with_rank(4), _layout(op)
    if layout is not None:
        merged_size(gradient[layout.index("C")], op.shape("filter").with_rank(4)[3])
    shape = op.value_as_shape("input_sizes")
    if shape.rank not in (None, 2, 4):
        raise InvalidArgumentError(f"input_sizes must have 4 or 2 elements, not {shape.rank}")
    if layout is not None and shape.rank == 4:
        merged_size(shape[layout.index("N")], gradient[layout.index("N")])
    return convolved_input(op)


def dilated(op: ShapeContext) -> TensorShape:
    """Return the shape of `Dilation2D`; TensorFlow checks sizes only if all in space are known."""
    shape, kernel = op.inputs[0].with_rank(4), op.inputs[1].with_rank(3)
    strides, rates = op.get_attr("strides"), op.get_attr("rates")
    if len(strides) != 4 or len(rates) != 4:
        raise InvalidArgumentError(f"strides and rates must have 4 values: {strides}, {rates}")
    n, *sizes, channels = shape
    if None not in sizes and None not in kernel[:2]:
        merged_size(channels, kernel[2])
    reaches = [
        None if window is None else (window - 1) * rate + 1
        for window, rate in zip(kernel[:2], rates[1:3], strict=True)
    ]
    is_same = op.get_attr("padding") == b"SAME"
    places = common.window_counts(sizes, reaches, strides[1:3], is_same=is_same)
    return TensorShape((n, *places, kernel[2]))


def shape_input(name: str, rank: int) -> ShapeFunction:
    """Return the shape function of ops whose output has the shape in an input, of a fixed rank."""
    return lambda op: op.value_as_shape(name).with_rank(rank)


def pool(op: ShapeContext) -> TensorShape:
    """Return the shape of a pooling op whose windows are attrs."""
    windows = op.get_attr("ksize")
    shape, layout = op.inputs[0].with_rank(len(windows)), _layout(op)
    if layout is None:
        return UNKNOWN_SHAPE
    strides = op.get_attr("strides")
    channel = layout.index("C")
    if not len(windows) == len(strides) == len(layout):
        raise InvalidArgumentError(
            f"ksize and strides must have {len(layout)} values, one for each axis of {layout}, but "
            f"have {len(windows)} and {len(strides)}"
        )
    if "MaxPool" in op.type and len(windows) == 4:  # its windows lie on channels as well
        reach, stride = windows[channel], strides[channel]
        _window_count(shape[channel], reach, stride, 1, op.get_attr("padding"), 0)
    is_only_space = windows[channel] == strides[channel] == windows[layout.index("N")] == 1
    if len(windows) == 4 and not is_only_space:
        return TensorShape((None,) * len(windows))
    inside = [size for size, axis in zip(windows, layout, strict=True) if axis not in "NC"]
    return _windowed(op, shape, layout, inside, shape[channel])


def pooled_best(op: ShapeContext) -> list[TensorShape]:
    """Return the shapes of `MaxPoolWithArgmax`."""
    windows = op.get_attr("ksize")
    if len(windows) != 4 or min(windows) < 1:
        raise InvalidArgumentError(f"ksize must have 4 positive values, got {windows}")
    return [pool(op)] * 2


def pool_second_gradient(op: ShapeContext) -> TensorShape:
    """Return the shape of the gradient of a gradient of `MaxPool`: that of the pooled values."""
    op.inputs[0].merge_with(op.inputs[2])
    return pool(op).merge_with(op.inputs[1])


def pool_second_gradient_by_inputs(op: ShapeContext) -> TensorShape:
    """Return the unknown shape of `MaxPoolGradGradV2`, whose windows are inputs."""
    if op.inputs[0].dims is not None:
        op.inputs[0].with_rank(4).merge_with(op.inputs[2])
    return UNKNOWN_SHAPE


def pool_by_inputs(op: ShapeContext) -> TensorShape:
    """Return the shape of `MaxPoolV2`, whose windows are inputs."""
    rank = 5 if op.get_attr("data_format") == b"NCHW_VECT_C" else 4
    op.inputs[0].with_rank(rank)
    return TensorShape((None,) * rank)


def fractional_pool(op: ShapeContext) -> list[TensorShape]:
    """Return the shapes of pooling with a ratio, and those of the limits of its windows."""
    ratios = op.get_attr("pooling_ratio")
    if len(ratios) != 4 or min(ratios) < 1:
        raise InvalidArgumentError(f"pooling_ratio must have 4 values of 1 or more, got {ratios}")
    shape = op.inputs[0].with_rank(4)
    sizes = [
        None if size is None else math.floor(size / ratio)
        for size, ratio in zip(shape, ratios, strict=True)
    ]
    return [TensorShape(sizes), TensorShape((None,)), TensorShape((None,))]


def sequence_cells(op: ShapeContext) -> list[TensorShape]:
    """Return the shapes of `BlockLSTM`: of all cells at all times."""
    times, batch, _ = op.shape("x").with_rank(3)
    cells = divided(op.shape("b").with_rank(1)[0], 4)
    return [TensorShape((times, batch, cells))] * op.num_outputs


def accidental_hits(op: ShapeContext) -> list[TensorShape]:
    """Return the shapes of `ComputeAccidentalHits`."""
    merged_size(op.inputs[0].with_rank(2)[1], op.get_attr("num_true"))
    return [TensorShape((None,))] * 3


def nth_element(op: ShapeContext) -> TensorShape:
    """Return the shape of `NthElement`: without the last axis, whose size must exceed `n`."""
    shape, n = op.inputs[0].with_rank_at_least(1), op.value("n")
    if n is not None and (n.ndim or n.item() < 0):
        raise InvalidArgumentError(f"n must be a scalar that is not negative, got {n.tolist()}")
    if n is not None and shape.dims is not None:
        last = shape[-1]
        if last is not None and last <= n.item():
            raise InvalidArgumentError(
                f"Input must have last dimension > n = {n.item()} but is {last}"
            )
    return shape[:-1]


@bounded_by(OutputBound.INPUT)
def bias_added(op: ShapeContext) -> TensorShape:
    """Return the shape of `BiasAdd`."""
    is_first = op.get_attr("data_format") == b"NCHW"
    shape, bias = op.inputs[0].with_rank_at_least(3 if is_first else 2), op.inputs[1].with_rank(1)
    if shape.dims is None:
        return UNKNOWN_SHAPE
    axis = 1 if is_first else len(shape.dims) - 1
    return shape.with_axis(axis, merged_size(shape[axis], bias[0]))


def bias_gradient(op: ShapeContext) -> TensorShape:
    """Return the shape of `BiasAddGrad`: a vector with an element for each channel."""
    shape = op.inputs[0].with_rank_at_least(2)
    axis = 1 if op.get_attr("data_format") == b"NCHW" else -1
    return TensorShape((shape[axis],))


def batch_norm(op: ShapeContext) -> Any:
    """Return the shapes of `FusedBatchNorm` of any version."""
    shape = op.inputs[0].with_rank(_rank_of_layout(op))
    axis = 1 if op.get_attr("data_format").startswith(b"NC") else -1
    channel = TensorShape((shape[axis],))
    uses_statistics = not op.get_attr("is_training") or op.get_attr("exponential_avg_factor") != 1
    for other in op.inputs[1 : 5 if uses_statistics else 3]:
        channel = channel.merge_with(other.with_rank(1))
    if shape.dims is not None:
        shape = shape.with_axis(axis, channel[0])
    return [shape, *[channel] * 4, UNKNOWN_SHAPE][: op.num_outputs]


def batch_norm_gradient(op: ShapeContext) -> Any:
    """Return the shapes of `FusedBatchNormGrad` of any version."""
    axis = 1 if op.get_attr("data_format").startswith(b"NC") else -1
    scale = op.inputs[2].with_rank(1)
    for shape in op.inputs[:2]:
        shape.with_rank(_rank_of_layout(op))
        scale = TensorShape((merged_size(scale[0], shape[axis]),))
    for other in op.inputs[3:5]:
        scale = scale.merge_with(other.with_rank(1))
    return [op.inputs[0], scale, scale, UNKNOWN_SHAPE, UNKNOWN_SHAPE]


@bounded_by(OutputBound.INPUT)
def both_as_input(op: ShapeContext) -> Any:
    """Return the shapes of `IsotonicRegression`."""
    return [op.inputs[0], op.inputs[0]]


def top_k(op: ShapeContext) -> Any:
    """Return the shapes of `TopK` and `TopKV2`."""
    shape = op.inputs[0].with_rank_at_least(1)
    count = op.get_attr("k") if op.type == "TopK" else common.integer(op, "k")
    if None not in (count, shape[-1]) and count > shape[-1]:  # type: ignore[operator]
        raise InvalidArgumentError(
            f"input must have last dimension >= k = {count} but is {shape[-1]}"
        )
    output = shape.with_axis(-1, count)
    return [output, output]


def dense_losses(op: ShapeContext) -> Any:
    """Return the shapes of `SoftmaxCrossEntropyWithLogits`."""
    shape = op.inputs[0].broadcast_with(op.inputs[1]).with_rank(2)
    return [TensorShape((shape[0],)), shape]


def sparse_losses(op: ShapeContext) -> Any:
    """Return the shapes of `SparseSoftmaxCrossEntropyWithLogits`."""
    shape, labels = op.inputs[0].with_rank(2), op.inputs[1].with_rank(1)
    count = merged_size(shape[0], labels[0])
    return [TensorShape((count,)), TensorShape((count, shape[1]))]


@bounded_by(OutputBound.INPUT)
def in_top_k(op: ShapeContext) -> TensorShape:
    """Return the shape of `InTopK` and `InTopKV2`."""
    return TensorShape((merged_size(op.inputs[0].with_rank(2)[0], op.inputs[1].with_rank(1)[0]),))


def _rank_of_layout(op: ShapeContext) -> int:
    return 5 if op.get_attr("data_format") in (b"NDHWC", b"NCDHW") else 4


def _layout(op: ShapeContext) -> str | None:
    """Return the layout of the input, for example "NHWC"; None for a packed layout."""
    layout: str = op.attrs.get("data_format", b"NHWC").decode()
    return layout if layout in ("NHWC", "NCHW", "NDHWC", "NCDHW") else None


def _windowed(
    op: ShapeContext, shape: TensorShape, layout: str, windows: Sequence[Size], depth: Size
) -> TensorShape:
    """Return the shape of an op that slides windows over the spatial axes of its input."""
    strides = op.get_attr("strides")
    dilations = op.attrs.get("dilations") or (1,) * len(layout)
    if not len(strides) == len(dilations) == len(layout):
        raise InvalidArgumentError(
            f"strides and dilations must have {len(layout)} values, one for each axis of {layout}, "
            f"but have {len(strides)} and {len(dilations)}"
        )
    padding = op.get_attr("padding")
    listed = op.attrs.get("padding_list") if len(layout) == 4 else None
    if listed:
        padding = b"EXPLICIT"
    if padding != b"EXPLICIT" and op.attrs.get("explicit_paddings"):
        raise InvalidArgumentError(f"explicit_paddings must be empty for the padding {padding!r}")
    pads = listed or op.attrs.get("explicit_paddings") or (0,) * (2 * len(layout))
    if padding == b"EXPLICIT" and len(pads) != 2 * len(layout):
        raise InvalidArgumentError(
            f"explicit_paddings must have {2 * len(layout)} values, got {pads}"
        )
    inside = iter(windows)
    sizes: list[Size] = []
    for axis, letter in enumerate(layout):
        if letter == "N":
            sizes.append(shape[axis])
        elif letter == "C":
            sizes.append(depth)
        else:
            added = pads[2 * axis] + pads[2 * axis + 1] if padding == b"EXPLICIT" else 0
            window = next(inside)
            sizes.append(
                _window_count(shape[axis], window, strides[axis], dilations[axis], padding, added)
            )
    return TensorShape(sizes)


def _window_count(
    size: Size, window: Size, stride: int, dilation: int, padding: bytes, added: int
) -> Size:
    if stride < 1:
        raise InvalidArgumentError(f"Stride must be > 0, but got {stride}")
    if size is None or window is None:
        return None
    if padding == b"SAME":
        return -(-size // stride)
    reach = (window - 1) * dilation + 1
    if size + added < reach:
        raise InvalidArgumentError(
            f"Negative dimension size caused by subtracting {reach} from {size + added}"
        )
    return (size + added - reach) // stride + 1


SHAPES: Final[dict[str, ShapeFunction]] = common.table(
    (_UNCHANGED, common.unchanged),
    (_GRADIENTS, common.all_equal),
    ("LRN", common.of_rank(4)),
    ("Conv2D Conv3D _FusedConv2D _FusedConv3D", convolution),
    (_DEPTHWISE, convolution),
    ("FusedPadConv2D FusedResizeAndPadConv2D", fused_convolution),
    ("AvgPool AvgPool3D MaxPool MaxPool3D", pool),
    ("MaxPoolWithArgmax", pooled_best),
    ("MaxPoolGradGrad MaxPool3DGradGrad", pool_second_gradient),
    ("MaxPoolGradGradV2", pool_second_gradient_by_inputs),
    ("MaxPoolV2", pool_by_inputs),
    ("FractionalAvgPool FractionalMaxPool", fractional_pool),
    ("BlockLSTM BlockLSTMV2", sequence_cells),
    ("ComputeAccidentalHits", accidental_hits),
    ("NthElement", nth_element),
    ("AvgPoolGrad", shape_input("orig_input_shape", 4)),
    ("AvgPool3DGrad", shape_input("orig_input_shape", 5)),
    ("MaxPoolGrad MaxPoolGradV2", common.of_rank(4)),
    ("MaxPool3DGrad", common.of_rank(5)),
    ("Conv2DBackpropInput", convolved_images),
    ("DepthwiseConv2dNativeBackpropInput", convolved_input),
    ("Dilation2D", dilated),
    ("Conv3DBackpropInputV2", shape_input("input_sizes", 5)),
    (
        "Conv2DBackpropFilter DepthwiseConv2dNativeBackpropFilter",
        shape_input("filter_sizes", 4),
    ),
    ("Conv3DBackpropFilterV2", shape_input("filter_sizes", 5)),
    ("BiasAdd", bias_added),
    ("BiasAddV1", common.unchanged),
    ("BiasAddGrad", bias_gradient),
    ("FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 _FusedBatchNormEx", batch_norm),
    ("FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3", batch_norm_gradient),
    ("IsotonicRegression", both_as_input),
    ("TopK TopKV2", top_k),
    ("SoftmaxCrossEntropyWithLogits", dense_losses),
    ("SparseSoftmaxCrossEntropyWithLogits", sparse_losses),
    ("InTopK InTopKV2", in_top_k),
    ("L2Loss", lambda _: SCALAR),
)
