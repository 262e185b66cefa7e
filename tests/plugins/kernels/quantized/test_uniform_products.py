"""Errors of uniformly quantized products name the operand at fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill.dtypes import qint8, qint32
from graphmill.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable


def parameters(shape: tuple[int, ...]) -> list[Any]:
    return [np.ones(shape, np.float32), np.zeros(shape, np.int32)]


@pytest.mark.parametrize("name", ["lhs", "rhs", "output"])
def test_wrong_parameters_of_a_convolution_name_their_operand(
    call: Callable[..., Any], name: str
) -> None:
    lhs = np.zeros((1, 1, 3), qint8.as_numpy_dtype)
    rhs = np.zeros((2, 1, 2), qint8.as_numpy_dtype)
    shapes = {"lhs": (), "rhs": (2,), "output": (2,), name: (3,)}
    scales_and_zero_points = [value for shape in shapes.values() for value in parameters(shape)]
    with pytest.raises(InvalidArgumentError, match=f"of {name} must have shape"):
        call(
            "UniformQuantizedConvolution", lhs, rhs, *scales_and_zero_points,
            rhs_quantization_axis=0, output_quantization_axis=1,
            Tin=qint8, Tout=qint32, padding="VALID",
            lhs_quantization_min_val=-128, lhs_quantization_max_val=127,
            rhs_quantization_min_val=-128, rhs_quantization_max_val=127,
            output_quantization_min_val=-(2**31), output_quantization_max_val=2**31 - 1,
        )  # fmt: skip
