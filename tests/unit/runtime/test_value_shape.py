"""Shapes and element types of arrays, handles, and objects of other classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphmill import dtypes
from graphmill.runtime.resources.variables import ResourceHandle
from graphmill.spi.kernels import dtype_of_value, has_dtype, num_bytes_of_value, shape_of_value


class Odd:
    """An object whose attributes are not a tensor's."""

    shape = "round"
    dtype = "cardboard"
    nbytes = "few"


class Matrix:
    """An object that looks like an array."""

    shape = (2, 3)
    dtype = np.dtype(np.float32)

    def __array__(self, *_: Any, **__: Any) -> Any:
        return np.zeros((2, 3), np.float32)


OBJECTS = [object(), Odd(), Matrix(), ResourceHandle("cpu", "", "v", "Variable")]


@pytest.mark.parametrize("value", OBJECTS, ids=lambda value: type(value).__name__)
def test_an_object_in_a_variant_is_a_scalar_of_that_type(value: Any) -> None:
    assert shape_of_value(value, dtypes.variant) == ()
    assert has_dtype(value, dtypes.variant)


@pytest.mark.parametrize("dtype", [dtypes.variant, dtypes.resource, dtypes.string])
def test_a_tensor_of_objects_has_its_own_shape(dtype: dtypes.DType) -> None:
    tensor = np.full((2, 0, 3), None, dtype.as_numpy_dtype)
    assert shape_of_value(tensor, dtype) == (2, 0, 3)
    assert has_dtype(tensor, dtype)


@pytest.mark.parametrize("value", [np.zeros((2, 3), np.float32), np.float32(1)])
def test_an_array_has_its_own_shape_and_type(value: Any) -> None:
    assert num_bytes_of_value(value) == value.nbytes
    assert shape_of_value(value, dtypes.float32) == value.shape
    assert dtype_of_value(value) == np.float32
    assert has_dtype(value, dtypes.float32)
    assert not has_dtype(value, dtypes.int32)


def test_object_without_dtype_is_not_a_number() -> None:
    for value in (object(), Odd()):
        assert num_bytes_of_value(value) == 0
        assert dtype_of_value(value) == dtypes.variant.as_numpy_dtype
        assert not has_dtype(value, dtypes.float32)
