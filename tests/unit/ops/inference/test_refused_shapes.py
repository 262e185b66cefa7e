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
    "Betainc": ([(FLOAT, [2]), (FLOAT, [3]), (FLOAT, [])], {}),
    "ConcatV2": ([(FLOAT, [2]), (FLOAT, [2, 2]), (INT, [])], {}),
    "CropAndResize": ([(FLOAT, [1, 2, 2, 1]), (FLOAT, [3, 4]), (INT, [2]), (INT, [2])], {}),
    "DiagPart": ([(FLOAT, [2, 3])], {}),
    "DynamicPartition": ([(FLOAT, [2, 3]), (INT, [3])], {"num_partitions": 2}),
    "DynamicStitch": ([(INT, [2]), (INT, [1]), (FLOAT, [2]), (FLOAT, [2])], {}),
    "EluGrad": ([(FLOAT, [2]), (FLOAT, [1])], {}),
    "FusedBatchNormGrad": (
        [(FLOAT, [1, 2, 2, 3]), (FLOAT, [1, 2, 2, 4]), *[(FLOAT, [3])] * 3],
        {},
    ),
    "HSVToRGB": ([(FLOAT, [2, 4])], {}),
    "InvertPermutation": ([(INT, [2, 2])], {}),
    "LRN": ([(FLOAT, [2, 2])], {}),
    "LinSpace": ([(FLOAT, [1]), (FLOAT, []), (INT, [])], {}),
    "MaxPoolGrad": (
        [(FLOAT, [2]), (FLOAT, None), (FLOAT, None)],
        {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"},
    ),
    "RandomUniformInt": ([(INT, [2]), (INT, [1]), (INT, [])], {}),
    "QuantizedMatMulWithBias": (
        [("quint8", [2, 3]), ("qint8", [4, 5]), (FLOAT, [5]), *[(FLOAT, [])] * 4],
        {},
    ),
    "ReverseSequence": ([(FLOAT, [3, 2]), (INT, [2])], {"seq_dim": 1}),
    "ScatterNd": ([(INT, [2, 1]), (FLOAT, [3]), (INT, [1])], {}),
    "ReverseV2": ([(FLOAT, [2]), (INT, [1, 1])], {}),
    "Roll": ([(FLOAT, [2]), (INT, []), (INT, [1, 1])], {}),
    "SegmentSum": ([(FLOAT, [2, 3]), (INT, [])], {}),
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
    "UnsortedSegmentSum": ([(FLOAT, [2]), (INT, [2]), (INT, [1])], {}),
    "TruncatedNormal": ([(INT, [2, 2])], {"dtype": FLOAT}),
}
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
