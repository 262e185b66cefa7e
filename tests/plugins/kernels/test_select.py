"""Bitwise selection equals `np.where` for all values, sizes and layouts."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill_plugins.kernels._select import passed, select

SHAPE = (150, 151)  # enough elements for the bits
LAYOUTS = {
    "plain": lambda x: x,
    "transposed": lambda x: x.T.copy().T,
    "strided": lambda x: x[:, ::2],
}


def operands(dtype, layout):
    random = np.random.default_rng(2)
    t, e = (random.integers(-100, 100, SHAPE).astype(dtype) for _ in range(2))
    if t.dtype.kind == "f":
        t[:3] = [[np.nan], [np.inf], [-0.0]]
        e[1:4] = [[np.nan], [-np.inf], [-0.0]]
    return [LAYOUTS[layout](x) for x in (random.random(SHAPE) < 0.5, t, e)]


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "int32", "uint64", "int8", "float16", "complex64"]
)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_select_is_where(dtype, layout):
    mask, t, e = operands(dtype, layout)
    for other in (e, e[:1], e.dtype.type(3)):
        actual, expected = select(mask, t, other), np.where(mask, t, other)
        assert actual.dtype == expected.dtype
        assert actual.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "float16"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_unselected_elements_are_multiplied_by_zero(dtype, layout):
    mask, t, _ = operands(dtype, layout)
    with np.errstate(all="ignore"):
        actual, expected = passed(np, mask, t), t * mask
    assert actual.dtype == t.dtype
    np.testing.assert_array_equal(actual, expected)


def test_inputs_are_not_written():
    mask, t, e = operands("float32", "plain")
    before = [x.copy() for x in (mask, t, e)]
    select(mask, t, e)
    with np.errstate(all="ignore"):
        passed(np, mask, t)
    for value, kept in zip((mask, t, e), before, strict=True):
        np.testing.assert_array_equal(value, kept)
