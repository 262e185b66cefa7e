"""Shapes that TensorFlow refuses when a node is added are refused then, and ranks are known."""

from __future__ import annotations

from typing import Any

import pytest

import graphmill
from graphmill import errors

FLOAT = "float32"
INT = "int32"

REFUSED: dict[str, tuple[list[tuple[str, Any]], dict[str, Any]]] = {
    "AdjustContrastv2": ([(FLOAT, [2, 3, 3]), (FLOAT, [5])], {}),
    "AdjustHue": ([(FLOAT, [5, 3]), (FLOAT, [])], {}),
    "ApproximateEqual": ([(FLOAT, [2]), (FLOAT, [1])], {}),
    "AvgPool": (
        [(FLOAT, [1, 1, 2, 1])],
        {"ksize": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "padding": "VALID"},
    ),
    "ArgMax": ([(FLOAT, None), (INT, [1])], {}),
    "BandedTriangularSolve": ([(FLOAT, [0, 4]), (FLOAT, [4, 2])], {}),
    "BatchToSpace": ([(FLOAT, [5, 2, 2, 2]), (INT, [2, 2])], {"block_size": 2}),
    "Betainc": ([(FLOAT, [2]), (FLOAT, [3]), (FLOAT, [])], {}),
    "BlockLSTM": (
        [
            *(("int64", []), (FLOAT, [5, 2, 3]), (FLOAT, [2, 4]), (FLOAT, [2, 4])),
            *((FLOAT, [7, 16]), (FLOAT, [4]), (FLOAT, [4]), (FLOAT, [4]), (FLOAT, [17])),
        ],
        {},
    ),
    "BroadcastTo": ([(FLOAT, [3]), (INT, [0])], {}),
    "CombinedNonMaxSuppression": (
        [(FLOAT, [2, 9, 2, 4]), (FLOAT, [2, 9, 3]), *[(INT, [])] * 2, *[(FLOAT, [])] * 2],
        {},
    ),
    "ComputeAccidentalHits": ([("int64", [3, 1]), ("int64", [4])], {"num_true": 2}),
    "Conv2D": (
        [(FLOAT, [1, 4, 4, 4]), (FLOAT, [2, 2, 2, 3])],
        {"strides": [1, 1, 1, 1], "padding": "SAME"},
    ),
    "ConcatV2": ([(FLOAT, [2]), (FLOAT, [2, 2]), (INT, [])], {}),
    "CropAndResize": ([(FLOAT, [1, 2, 2, 1]), (FLOAT, [3, 4]), (INT, [2]), (INT, [2])], {}),
    "DenseToDenseSetOperation": (
        [(INT, [3, 2]), (INT, [4, 2])],
        {"set_operation": "a-b"},
    ),
    "DenseToSparseSetOperation": (
        [(INT, [3, 2]), ("int64", [5, 2]), (INT, [5]), ("int64", [3])],
        {"set_operation": "a-b"},
    ),
    "DiagPart": ([(FLOAT, [2, 3])], {}),
    "Dilation2D": (
        [(FLOAT, [1, 4, 4, 2]), (FLOAT, [2, 2, 3])],
        {"strides": [1] * 4, "rates": [1] * 4, "padding": "SAME"},
    ),
    "DrawBoundingBoxes": ([(FLOAT, [1, 4, 4, 2]), (FLOAT, [1, 3, 4])], {}),
    "DynamicPartition": ([(FLOAT, [2, 3]), (INT, [3])], {"num_partitions": 2}),
    "DynamicStitch": ([(INT, [2]), (INT, [1]), (FLOAT, [2]), (FLOAT, [2])], {}),
    "Einsum": ([(FLOAT, [2, 3, 4]), (FLOAT, [2, 5, 6])], {"equation": "...ab,...bc->...ac"}),
    "EluGrad": ([(FLOAT, [2]), (FLOAT, [1])], {}),
    "FusedBatchNormGrad": (
        [(FLOAT, [1, 2, 2, 3]), (FLOAT, [1, 2, 2, 4]), *[(FLOAT, [3])] * 3],
        {},
    ),
    "HSVToRGB": ([(FLOAT, [2, 4])], {}),
    "InvertPermutation": ([(INT, [2, 2])], {}),
    "LRN": ([(FLOAT, [2, 2])], {}),
    "LinSpace": ([(FLOAT, [1]), (FLOAT, []), (INT, [])], {}),
    "MatrixSetDiag": ([(FLOAT, [None, 2, 3]), (FLOAT, [2, 3])], {}),
    "MatrixSetDiagV3": ([(FLOAT, [2, 3]), (FLOAT, [2, 2, 3]), (INT, [2])], {}),
    "MaxPoolGradGrad": (
        [(FLOAT, [1, 4, 4, 1]), (FLOAT, [1, 3, 2, 1]), (FLOAT, [1, 4, 4, 1])],
        {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"},
    ),
    "MaxPoolWithArgmax": (
        [(FLOAT, [1, 1, 2, 1])],
        {"ksize": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "padding": "VALID"},
    ),
    "MaxPoolGrad": (
        [(FLOAT, [2]), (FLOAT, None), (FLOAT, None)],
        {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"},
    ),
    "QuantizeAndDequantizeV4Grad": ([(FLOAT, [2]), (FLOAT, [2]), (FLOAT, [2]), (FLOAT, [])], {}),
    "QuantizedConcat": (
        [(INT, []), ("quint8", [2, 3]), ("quint8", [2]), *[(FLOAT, [])] * 4],
        {"N": 2},
    ),
    "QuantizedConv2D": (
        [("quint8", [1, 4, 4, 3]), ("quint8", [2, 2, 2, 3]), *[(FLOAT, [])] * 4],
        {"strides": [1, 1, 1, 1], "padding": "SAME"},
    ),
    "QuantizedReshape": ([("quint8", [2]), (INT, [0]), (FLOAT, []), (FLOAT, [])], {}),
    "RaggedTensorToTensor": (
        [(INT, [2]), (FLOAT, [5]), (FLOAT, []), (INT, [4, 2])],
        {"row_partition_types": ["ROW_SPLITS"]},
    ),
    "RandomIndexShuffle": ([(INT, [5]), (INT, [4, 3]), (INT, [])], {}),
    "RandomUniformInt": ([(INT, [2]), (INT, [1]), (INT, [])], {}),
    "QuantizedMatMulWithBias": (
        [("quint8", [2, 3]), ("qint8", [4, 5]), (FLOAT, [5]), *[(FLOAT, [])] * 4],
        {},
    ),
    "ReverseSequence": ([(FLOAT, [3, 2]), (INT, [2])], {"seq_dim": 1}),
    "ScatterNd": ([(INT, [2, 1]), (FLOAT, [3]), (INT, [1])], {}),
    "Reshape": ([(FLOAT, [2]), (INT, [0])], {}),
    "ReverseV2": ([(FLOAT, [2]), (INT, [1, 1])], {}),
    "Roll": ([(FLOAT, [2]), (INT, []), (INT, [1, 1])], {}),
    "SegmentSum": ([(FLOAT, [2, 3]), (INT, [])], {}),
    "SelectV2": ([("bool", None), (FLOAT, [2, 3]), (FLOAT, [2, 4])], {}),
    "Select": ([("bool", [3]), (FLOAT, [2, 3]), (FLOAT, [2, 3])], {}),
    "SpaceToBatchND": ([(FLOAT, [1, 2]), (INT, [2]), (INT, [2, 2])], {}),
    "SparseToSparseSetOperation": (
        [
            *(("int64", [3, 2]), (INT, [3]), ("int64", [2])),
            *(("int64", [2, 3]), (INT, [2]), ("int64", [3])),
        ],
        {"set_operation": "union"},
    ),
    "StatelessRandomNormal": ([(INT, [2]), (INT, [3])], {"dtype": FLOAT}),
    "StatelessRandomUniformInt": ([(INT, [2]), (INT, [2]), (INT, [1]), (INT, [])], {"dtype": INT}),
    "StatelessRandomUniformV2": (
        [(INT, [2]), ("uint64", []), ("uint64", [2]), (INT, [])],
        {"dtype": FLOAT},
    ),
    "TensorScatterUpdate": ([(FLOAT, [4, 3]), (INT, [2, 1]), (FLOAT, [2, 2])], {}),
    "TensorScatterAdd": ([(FLOAT, [4, 3]), (INT, [2, 1]), (FLOAT, [3, 3])], {}),
    "TensorScatterMin": ([(FLOAT, [0]), (INT, [2, 1]), (FLOAT, None)], {}),
    "Tile": ([(FLOAT, None), (INT, [1, 1])], {}),
    "UnicodeEncode": ([(INT, [4]), ("int64", [0])], {"output_encoding": "UTF-8"}),
    "UniformQuantizedDotHybrid": (
        [(FLOAT, [2, 3]), ("qint8", [3, 4]), (FLOAT, [4]), (INT, [])],
        {
            "Tout": FLOAT,
            "rhs_quantization_axis": 1,
            "rhs_quantization_min_val": -128,
            "rhs_quantization_max_val": 127,
        },
    ),
    "UnsortedSegmentJoin": ([("string", [2]), (INT, [3]), (INT, [])], {}),
    "UnsortedSegmentSum": ([(FLOAT, [2]), (INT, [2]), (INT, [1])], {}),
    "TruncatedNormal": ([(INT, [2, 2])], {"dtype": FLOAT}),
}
ACCEPTED: dict[str, tuple[list[tuple[str, Any]], dict[str, Any]]] = {
    "SelectV2": ([("bool", [2, 4]), (FLOAT, [2, 3]), (FLOAT, None)], {}),
    "Dilation2D": (
        [(FLOAT, [1, None, 4, 2]), (FLOAT, [2, 2, 3])],
        {"strides": [1] * 4, "rates": [1] * 4, "padding": "SAME"},
    ),
    "MatrixSetDiag": ([(FLOAT, [4, 2, 3]), (FLOAT, [5, 2])], {}),
    "MaxPoolGradGrad": (
        [(FLOAT, None), (FLOAT, None), (FLOAT, [3])],
        {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"},
    ),
    "MirrorPadGrad": ([(FLOAT, [2, 3]), (INT, [None, 3])], {"mode": "REFLECT"}),
    "RandomIndexShuffle": ([(INT, [5]), (INT, [3]), (INT, [1])], {}),
    "SparseToSparseSetOperation": (
        [
            *(("int64", [3, 2]), (INT, [3]), ("int64", None)),
            *(("int64", [2, 3]), (INT, [2]), ("int64", None)),
        ],
        {"set_operation": "union"},
    ),
}
"""Shapes that TensorFlow refuses only when the node runs, if at all."""
KNOWN: dict[str, tuple[list[tuple[str, Any]], dict[str, Any], Any]] = {
    "ApproximateEqual": ([(FLOAT, None), (FLOAT, [2])], {}, (2,)),
    "Betainc": ([(FLOAT, []), (FLOAT, [None, 3]), (FLOAT, None)], {}, (None, 3)),
    "Cholesky": ([(FLOAT, [2, None, 4])], {}, (2, 4, 4)),
    "EluGrad": ([(FLOAT, [None, 3]), (FLOAT, [2, None])], {}, (2, 3)),
    "HSVToRGB": ([(FLOAT, [2, None])], {}, (2, 3)),
    "InvertPermutation": ([(INT, None)], {}, (None,)),
    "LRN": ([(FLOAT, None)], {}, (None,) * 4),
    "AvgPool3DGrad": (
        [(INT, [5]), (FLOAT, None)],
        {"ksize": [1] * 5, "strides": [1] * 5, "padding": "SAME"},
        (None,) * 5,
    ),
    "FusedBatchNorm": (
        [(FLOAT, None), (FLOAT, [2]), (FLOAT, [2]), (FLOAT, [2]), (FLOAT, [2])],
        {"is_training": False},
        (None, None, None, 2),
    ),
    "BandedTriangularSolve": ([(FLOAT, [1, 2, 4]), (FLOAT, [3, None, 5])], {}, (3, 4, 5)),
    "Einsum": (
        [(FLOAT, [2, 1, 3, 4]), (FLOAT, [5, 4, 6])],
        {"equation": "...ab,...bc->c...a"},
        (6, 2, 5, 3),
    ),
    "FractionalMaxPool": (
        [(FLOAT, [1, 7, None, 3])],
        {"pooling_ratio": [1.0, 1.5, 1.5, 1.0]},
        (1, 4, None, 3),
    ),
    "IRFFT2D": ([("complex64", [7, 4, 5]), (INT, [2])], {}, (7, None, None)),
    "NthElement": ([(FLOAT, [2, 3, 4]), (INT, [])], {}, (2, 3)),
    "QuantizedMaxPool": (
        [("quint8", [1, 4, 4, 2]), (FLOAT, []), (FLOAT, [])],
        {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"},
        (1, 2, 2, 2),
    ),
    "SpaceToBatch": ([(FLOAT, [1, 4, 6, 3]), (INT, [2, 2])], {"block_size": 2}, (4, None, None, 3)),
    "TensorScatterUpdate": ([(FLOAT, [4, 3]), (INT, [2, 1]), (FLOAT, [2, 3])], {}, (4, 3)),
}


def added(op: str, inputs: list[tuple[str, Any]], attrs: dict[str, Any]) -> Any:
    graph = graphmill.Graph()
    values = [graph.placeholder(dtype, shape) for dtype, shape in inputs]
    return graph.create_op(op, values, attrs).outputs[0]


@pytest.mark.parametrize("op", REFUSED)
def test_wrong_shapes_are_refused(op: str) -> None:
    inputs, attrs = REFUSED[op]
    with pytest.raises(errors.InvalidArgumentError):
        added(op, inputs, attrs)
    added(op, [(dtype, None) for dtype, _ in inputs], attrs)


@pytest.mark.parametrize("op", ACCEPTED)
def test_shapes_are_accepted_as_in_tensorflow(op: str) -> None:
    added(op, *ACCEPTED[op])


@pytest.mark.parametrize("op", KNOWN)
def test_sizes_are_known_as_in_tensorflow(op: str) -> None:
    inputs, attrs, expected = KNOWN[op]
    assert added(op, inputs, attrs).shape == expected


def test_a_scalar_is_not_rolled() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="at least rank 1"):
        added("Roll", [(FLOAT, []), (INT, []), (INT, [])], {})


def test_betainc_of_scalars_is_a_scalar() -> None:
    assert added("Betainc", [(FLOAT, [])] * 3, {}).shape == ()
    assert added("Betainc", [(FLOAT, []), (FLOAT, []), (FLOAT, None)], {}).shape.rank is None


def reshaped(sizes: Any, shape: list[int]) -> Any:
    graph = graphmill.Graph()
    values = [graph.placeholder(FLOAT, sizes), graph.constant(shape, INT)]
    return graph.create_op("Reshape", values, {}).outputs[0].shape


@pytest.mark.parametrize(
    ("sizes", "shape", "expected"),
    [
        ([2, 3], [3, -1], (3, 2)),
        ([2, 3], [-1, -1], (None, None)),
        ([None, 3], [-1, 3], (None, 3)),
        ([None, 3], [6], (6,)),
        ([0, None], [0, -1], (0, None)),
    ],
)
def test_the_free_size_of_a_reshape_is_computed(
    sizes: Any, shape: list[int], expected: Any
) -> None:
    assert reshaped(sizes, shape) == expected


@pytest.mark.parametrize(
    ("sizes", "shape"), [([2, 3], [4, -1]), ([None, 3], [4]), ([2, 0, None], [5]), ([6], [0, -1])]
)
def test_a_reshape_to_another_number_of_elements_is_refused(sizes: Any, shape: list[int]) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="Cannot reshape"):
        reshaped(sizes, shape)


@pytest.mark.parametrize(("op", "attrs"), [("Pad", {}), ("MirrorPad", {"mode": "REFLECT"})])
def test_negative_paddings_are_refused(op: str, attrs: dict[str, Any]) -> None:
    graph = graphmill.Graph()
    values = [graph.placeholder(FLOAT, [2]), graph.constant([[-1, 2]], INT)]
    with pytest.raises(errors.InvalidArgumentError, match="must be non-negative"):
        graph.create_op(op, values, attrs)


def test_a_negative_number_of_segments_is_refused() -> None:
    graph = graphmill.Graph()
    values = [graph.placeholder(FLOAT), graph.placeholder(INT, [3]), graph.constant(-1, INT)]
    with pytest.raises(errors.InvalidArgumentError, match="num_segments"):
        graph.create_op("UnsortedSegmentSum", values, {})


@pytest.mark.parametrize(
    ("op", "shapes", "attrs"),
    [
        ("BiasAdd", [(FLOAT, [2, 3]), (FLOAT, None)], {"data_format": "NCHW"}),
        ("ReverseSequence", [(FLOAT, [3, 2]), (INT, [2])], {"seq_dim": 1, "batch_dim": -1}),
    ],
)
def test_shapes_that_do_not_fit_attrs_are_refused(
    op: str, shapes: list[tuple[str, Any]], attrs: dict[str, Any]
) -> None:
    with pytest.raises(errors.InvalidArgumentError):
        added(op, shapes, attrs)
