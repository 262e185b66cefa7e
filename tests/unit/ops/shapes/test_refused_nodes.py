"""Nodes that are refused when they are added, because of the values of their constants."""

from __future__ import annotations

import numpy as np
import pytest

import graphmill
from graphmill.errors import InvalidArgumentError

IMAGE = np.zeros((1, 4, 4, 2), np.float32)
KERNEL = np.zeros((2, 2, 2, 3), np.float32)
PADS = np.array([[0, 0], [1, 2], [3, 0], [0, 0]], np.int32)
WINDOWS = {"mode": "REFLECT", "strides": [1, 1, 1, 1], "padding": "VALID"}


def add(op, *values, **attrs):
    graph = graphmill.Graph()
    return graph.create_op(op, [graph.constant(value) for value in values], attrs)


def test_padded_convolutions_have_a_shape() -> None:
    assert add("FusedPadConv2D", IMAGE, PADS, KERNEL, **WINDOWS).outputs[0].shape == (1, 6, 6, 3)
    size = np.array([7, 5], np.int32)
    node = add("FusedResizeAndPadConv2D", IMAGE, size, PADS, KERNEL, **WINDOWS)
    assert node.outputs[0].shape == (1, 9, 7, 3)


@pytest.mark.parametrize(
    ("op", "values", "attrs", "message"),
    [
        ("FusedPadConv2D", (IMAGE, -PADS, KERNEL), WINDOWS, "non-negative"),
        ("FusedPadConv2D", (IMAGE, PADS, KERNEL[:, :, :1]), WINDOWS, "must be equal"),
        ("Unpack", (np.zeros(1, np.float32),), {"num": 0}, "must be equal"),
        (
            "MatrixDiagV3",
            (np.zeros(2, np.float32), np.array([-3, -2], np.int32), -1, -1, np.float32(0)),
            {},
            "at least rank 2",
        ),
        (
            "TensorListScatterV2",
            (np.zeros((1, 2)), np.zeros(1, np.int32), np.array([-7], np.int32), 1),
            {},
            "-7",
        ),
        (
            "RaggedTensorToTensor",
            (np.array([2, 2]), np.zeros(3), np.zeros(()), np.array([0, 3])),
            {"row_partition_types": []},
            "should not be empty",
        ),
    ],
)
def test_impossible_constants_are_refused(op, values, attrs, message) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        add(op, *values, **attrs)
