"""Python and NumPy values as tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.ops.inputs.values import reshaped, to_array


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1, dtypes.int32),
        (2**31, dtypes.int64),
        (2**63, dtypes.uint64),
        (1.5, dtypes.float32),
        ([1, 2.5], dtypes.float32),
        (True, dtypes.bool),
        (1j, dtypes.complex128),
        ("a", dtypes.string),
        (b"a", dtypes.string),
        (np.float64(1), dtypes.float64),
        (np.array([1]), dtypes.int64),
        (np.array(["a"]), dtypes.string),
        ([], dtypes.float32),
    ],
)
def test_values_have_natural_types(value: Any, dtype: dtypes.DType) -> None:
    array, found = to_array(value)
    assert found is dtype
    assert array.dtype == dtype.as_numpy_dtype


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1, dtypes.float16),
        (1, dtypes.qint8),
        (200, dtypes.uint8),
        (-8, dtypes.int4),
        (1.5, dtypes.bfloat16),
        (1.5, dtypes.float8_e5m2),
        (1e300, dtypes.float32),
        (1.5, dtypes.complex64),
        ([], dtypes.int32),
        (np.array([1, 2]), dtypes.int8),
        (np.array([1.5]), dtypes.float32),
    ],
)
def test_types_that_are_requested(value: Any, dtype: dtypes.DType) -> None:
    skip_without_ml_dtypes(dtype)
    array, found = to_array(value, dtype)
    assert found is dtype
    assert array.dtype == dtype.as_numpy_dtype


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1.5, dtypes.int32),
        (256, dtypes.uint8),
        (-1, dtypes.uint64),
        (8, dtypes.int4),
        (np.array([300]), dtypes.int8),
        (True, dtypes.int32),
        (1, dtypes.bool),
        ("1", dtypes.int32),
        (1, dtypes.string),
        (1, dtypes.resource),
        (1j, dtypes.float64),
    ],
)
def test_types_that_do_not_fit(value: Any, dtype: dtypes.DType) -> None:
    skip_without_ml_dtypes(dtype)
    with pytest.raises(InvalidArgumentError, match=f"expected a value of {dtype.name}, but"):
        to_array(value, dtype)


def test_a_wide_type_gets_all_digits_of_a_number() -> None:
    assert to_array(0.1, dtypes.float64)[0] == 0.1


def skip_without_ml_dtypes(dtype: dtypes.DType) -> None:
    if dtype in (dtypes.bfloat16, dtypes.int4, dtypes.float8_e5m2):
        pytest.importorskip("ml_dtypes")


def test_values_are_reshaped() -> None:
    assert reshaped(np.array(7), (2, 2)).tolist() == [[7, 7], [7, 7]]
    assert reshaped(np.arange(4), (2, 2)).shape == (2, 2)
    with pytest.raises(InvalidArgumentError, match=r"shape \[3\] cannot fill shape \[2\]"):
        reshaped(np.arange(3), (2,))
