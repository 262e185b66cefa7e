"""Zeros have the sign that TensorFlow's kernels give them."""

from __future__ import annotations

import numpy as np
import pytest

CASES = {
    "CumulativeLogsumexp": (([-0.0], 0), {}, [0.0]),
    "FloorMod": (
        ([-6.0, 6.0, -6.0, 0.0, -0.0, 5.0], [3.0, -3.0, -3.0, -3.0, 3.0, 2.0]),
        {},
        [-0.0, 0.0, -0.0, 0.0, -0.0, 1.0],
    ),
    "ReciprocalGrad": (
        ([np.inf, -np.inf, np.nan, 1.0, np.inf], [0.0, -0.0, 0.0, -0.0, 1.0]),
        {},
        [0.0, 0.0, 0.0, 0.0, -np.inf],
    ),
    "RsqrtGrad": (([-0.0, 0.0, 1.0], [-0.0, -0.0, -0.0]), {}, [0.0, 0.0, 0.0]),
    "SqrtGrad": (([-0.0, 0.0, 1.0], [-0.0, -0.0, -0.0]), {}, [0.0, 0.0, 0.0]),
    "SoftmaxCrossEntropyWithLogits": (([[3.0]], [[1.0]]), {}, [0.0]),
    "SparseSoftmaxCrossEntropyWithLogits": (([[3.0]], [0]), {}, [0.0]),
    "Sum": (([-0.0, 0.0], np.array([], np.int32)), {"keep_dims": False}, [-0.0, 0.0]),
}


def arguments(values):
    return [
        np.array(value, np.float32 if np.array(value).dtype.kind == "f" else np.int32)
        for value in values
    ]


@pytest.mark.parametrize("op", CASES)
def test_zeros_have_the_sign_of_tensorflow(call, op):
    inputs, attrs, expected = CASES[op]
    result = call(op, *arguments(inputs), **attrs)
    result = result[0] if isinstance(result, tuple) else result
    np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(np.signbit(result), np.signbit(expected))
