"""If a check that names an error is true, the kernel computes; else it may raise.

Inputs are drawn so that some are refused and some are not.
"""

from __future__ import annotations

import numpy as np
import pytest

from graphmill.errors import OpError
from graphmill_plugins.lowerings._ops import OPS

from .conftest import checks_of

DRAWS = 60
f32, i32, i64 = np.float32, np.int32, np.int64


def ints(rng, low, high, *shape):
    return rng.integers(low, high, shape).astype(i32)


def floats(rng, *shape):
    return rng.standard_normal(shape).astype(f32)


def one_of(rng, *values):
    return values[rng.integers(len(values))]


def gather(rng):
    return [floats(rng, 3, 2), ints(rng, -1, 4, 2)], {}


def gather_v2(rng):
    return [*gather(rng)[0], i32(rng.integers(2))], {}


def gather_nd(rng):
    return [floats(rng, 3, 2), ints(rng, -1, 4, 2, 2)], {}


def scatter_nd(rng):
    return [ints(rng, -1, 5, 2, 1), floats(rng, 2, 2), np.array([4, 2], i32)], {}


def tensor_scatter(rng):
    return [floats(rng, 4, 2), ints(rng, -1, 5, 2, 1), floats(rng, 2, 2)], {}


def integers(rng):
    return [ints(rng, -9, 9, 3), ints(rng, -2, 5, 3)], {}


def sorted_segments(rng):
    return [floats(rng, 3, 2), np.cumsum(ints(rng, -1, 2, 3), dtype=i32)], {}


def sorted_segments_v2(rng):
    return [*sorted_segments(rng)[0], i32(9)], {}


def sparse_segments(rng):
    ids = np.cumsum(ints(rng, 0, 2, 3), dtype=i32)
    return [floats(rng, 3, 2), ints(rng, 0, 4, 3), ids, i32(3)], {}


def sparse_gradients(rng):
    return [floats(rng, 3, 2), ints(rng, 0, 5, 2), ints(rng, 0, 4, 2), i32(4)], {}


def segment_rows(rng):
    return [floats(rng, 3, 2), ints(rng, -1, 4, 2)], {"scale": ""}


def unsorted_segments(rng):
    return [floats(rng, 3), ints(rng, -1, 4, 3), i32(3)], {}


def labels(rng):
    return [floats(rng, 2, 3), ints(rng, -1, 4, 2)], {}


def numerics(rng):
    return [np.array([1, one_of(rng, 0, np.nan, np.inf)], f32)], {"message": "m"}


def stitch(rng):
    return [[ints(rng, -1, 4, 2), ints(rng, 0, 4, 1)], [floats(rng, 2), floats(rng, 1)]], {}


def band(rng):
    return [floats(rng, 2, 3), i64(rng.integers(0, 5)), i64(rng.integers(0, 5))], {}


def bins(rng):
    return [ints(rng, -1, 4, 2), i32(4), np.zeros(0, f32)], {}


def histogram(rng):
    limits = np.array([0, one_of(rng, -1, 0, 1, np.inf)], f32)
    return [np.array([0.5, one_of(rng, 0.1, np.nan)], f32), limits, i32(4)], {}


def boxes(rng):
    return floats(rng, 2, 4) + one_of(rng, f32(0), f32(0), f32("inf"), f32("nan"))


def crops(rng):
    size = np.array([2, 2], i32)
    return [floats(rng, 2, 3, 3, 1), boxes(rng), ints(rng, -1, 3, 2), size], {}


def crops_image(rng):
    size = np.array([2, 3, 3, 1], i32)
    return [floats(rng, 2, 2, 2, 1), boxes(rng), ints(rng, -1, 3, 2), size], {"T": "float32"}


def crops_boxes(rng):
    images = floats(rng, 2, 3, 3, 1)
    return [floats(rng, 2, 2, 2, 1), images, boxes(rng), ints(rng, -1, 3, 2)], {}


def permutation(rng):
    return [one_of(rng, ints(rng, -1, 4, 3), rng.permutation(3).astype(i32))], {}


def sequences(rng):
    return [floats(rng, 2, 3), ints(rng, -1, 5, 2)], {"seq_dim": 1}


def unravel(rng):
    return [ints(rng, -1, 8, 2), np.array([2, one_of(rng, 0, 3)], i32)], {}


def sparse_product(rng):
    values, shape = floats(rng, 2), np.array([3, 2], i64)
    return [ints(rng, -1, 4, 2, 2).astype(i64), values, shape, floats(rng, 2, 2)], {}


def least_squares(rng):
    return [floats(rng, 3, 2), floats(rng, 3, 1), np.float64(one_of(rng, -1, 0.5))], {}


def lstm(rng):
    x, state, weights = floats(rng, 2, 1, 2), floats(rng, 1, 2), floats(rng, 4, 8)
    peephole = [floats(rng, 2) for _ in range(3)]
    count = i64(one_of(rng, -1, 0, 1, 2, 3))
    return [count, x, state, state, weights, *peephole, floats(rng, 8)], {}


def lstm_gradient(rng):
    inputs, attrs = lstm(rng)
    return [*inputs, *(floats(rng, 2, 1, 2) for _ in range(9))], {"use_peephole": False, **attrs}


def axes(rng):
    return [ints(rng, -6, 6, 1)], {}


def maxima(rng):
    attrs = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    argmax = ints(rng, -1, 6, 2, 1, 1, 1).astype(i64)
    per_batch = bool(rng.integers(2))
    attrs["include_batch_in_index"] = per_batch
    return [floats(rng, 2, 2, 2, 1), floats(rng, 2, 1, 1, 1), argmax], attrs


def quantized(rng):
    return [floats(rng, 3), f32(one_of(rng, -1, 2)), f32(1)], {"range_given": bool(rng.integers(2))}


def quantized_v3(rng):
    inputs, attrs = quantized(rng)
    return [*inputs, i32(8)], attrs


def random_range(rng):
    seed = np.array([1, 2], i32)
    return [np.array([2], i32), seed, i32(0), i32(rng.integers(-2, 3))], {}


def random_range_v2(rng):
    key, counter = np.array([1], np.uint64), np.array([1, 2], np.uint64)
    return [np.array([2], i32), key, counter, i32(1), i32(0), i32(rng.integers(-2, 3))], {}


SCATTERS = ["TensorScatterUpdate", "TensorScatterAdd", "TensorScatterSub", "TensorScatterMax"]
OPS_OF = {
    gather: ["Gather"],
    gather_v2: ["GatherV2"],
    gather_nd: ["GatherNd"],
    scatter_nd: ["ScatterNd"],
    tensor_scatter: [*SCATTERS, "TensorScatterMin", "ScatterNdNonAliasingAdd"],
    integers: ["Div", "FloorDiv", "TruncateDiv", "Mod", "FloorMod", "TruncateMod", "Pow"],
    sorted_segments: [f"Segment{what}" for what in ("Sum", "Mean", "Max", "Min", "Prod")],
    sorted_segments_v2: [f"Segment{what}V2" for what in ("Sum", "Max", "Min", "Prod")],
    sparse_segments: [f"SparseSegment{what}WithNumSegments" for what in ("Sum", "Mean", "SqrtN")],
    sparse_gradients: [f"SparseSegment{what}Grad" for what in ("Sum", "Mean", "SqrtN")],
    unsorted_segments: [f"UnsortedSegment{what}" for what in ("Sum", "Max", "Min", "Prod")],
    segment_rows: ["_SegmentRows"],
    labels: ["SparseSoftmaxCrossEntropyWithLogits"],
    numerics: ["CheckNumerics", "CheckNumericsV2"],
    stitch: ["DynamicStitch", "ParallelDynamicStitch"],
    band: ["MatrixBandPart", "BatchMatrixBandPart"],
    bins: ["Bincount", "DenseBincount"],
    histogram: ["HistogramFixedWidth"],
    crops: ["CropAndResize"],
    crops_image: ["CropAndResizeGradImage"],
    crops_boxes: ["CropAndResizeGradBoxes"],
    permutation: ["InvertPermutation"],
    sequences: ["ReverseSequence"],
    unravel: ["UnravelIndex"],
    sparse_product: ["SparseTensorDenseMatMul"],
    least_squares: ["MatrixSolveLs", "BatchMatrixSolveLs"],
    lstm: ["BlockLSTM", "BlockLSTMV2"],
    lstm_gradient: ["BlockLSTMGrad", "BlockLSTMGradV2"],
    axes: ["DataFormatDimMap"],
    maxima: ["MaxPoolGradWithArgmax"],
    quantized: ["QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4"],
    quantized_v3: ["QuantizeAndDequantizeV3"],
    random_range: ["StatelessRandomUniformInt"],
    random_range_v2: ["StatelessRandomUniformIntV2"],
}
DRAWN = [(op, draw) for draw, ops in OPS_OF.items() for op in ops]
OF_VARIABLES = "ProximalAdagrad", "Ftrl", "FtrlV2"  # in test_optimizers.py


def refuses(op):
    return any(check.error and check.of == "inputs" for check in checks_of(op))


def error_of(made):
    try:
        made.compute()
    except OpError as error:
        return error
    return None


def test_each_op_that_refuses_inputs_is_drawn_here():
    refusing = {op for ops in OPS.values() for op in ops.split() if refuses(op)}
    assert {op for op in refusing if not op.endswith(OF_VARIABLES)} == {op for op, _ in DRAWN}


@pytest.mark.parametrize(("op", "draw"), DRAWN, ids=[op for op, _ in DRAWN])
def test_a_kernel_raises_only_where_a_check_fails(op, draw, checked):
    rng = np.random.default_rng(7)
    seen = {"computed": 0, "refused": 0}
    for _ in range(DRAWS):
        inputs, attrs = draw(rng)
        made = checked(op, *inputs, **attrs)
        expected = tuple(check.error for check in made.failed_inputs() if check.error)
        raised = error_of(made)
        if raised is not None:
            assert isinstance(raised, expected), inputs
        seen["computed"] += not expected
        seen["refused"] += raised is not None
    assert all(seen.values()), seen
