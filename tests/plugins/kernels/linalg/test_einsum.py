"""Einsum equals NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill import errors
from graphmill_plugins.kernels.linalg.einsum import einsum

LABELS = "abcd"
SIZES = dict(zip(LABELS, (2, 3, 4, 1), strict=True))
SUBSCRIPT = st.text(LABELS, max_size=4)
F64 = np.dtype(np.float64)


def operand(subscript: str, offset: int) -> np.ndarray:
    shape = [SIZES[label] for label in subscript]
    return np.arange(np.prod(shape, dtype=int)).reshape(shape) * 0.5 - offset


@st.composite
def equations(draw: st.DrawFn) -> tuple[list[str], str]:
    operands = draw(st.lists(SUBSCRIPT, min_size=1, max_size=2))
    known = sorted(set("".join(operands)))
    output = draw(st.permutations(known))
    return operands, "".join(output[: draw(st.integers(0, len(output)))])


@settings(max_examples=300)
@given(equations())
def test_einsum_equals_numpys(drawn):
    operands, output = drawn
    equation = f"{','.join(operands)}->{output}"
    values = [operand(text, number) for number, text in enumerate(operands)]
    expected = np.einsum(equation, *values)
    np.testing.assert_allclose(einsum(np, equation, len(values), F64)(values), expected)


def test_operands_of_other_shapes_get_their_own_plans():
    multiply = einsum(np, "ab,bc->ac", 2, F64)
    for size in (2, 3, 2):
        np.testing.assert_array_equal(multiply([np.ones((1, size)), np.ones((size, 1))]), [[size]])


def test_transposed_operands_are_multiplied():
    x, y = np.arange(6.0).reshape(3, 2).T, np.arange(6.0).reshape(2, 3).T
    np.testing.assert_array_equal(einsum(np, "ab,bc->ac", 2, F64)([x, y]), x @ y)


def test_narrow_floats_are_added_in_float32():
    ones = np.ones((1, 4096), np.float16)
    result = einsum(np, "ab,ab->a", 2, ones.dtype)([ones, ones])
    assert result.dtype == np.float16
    assert result == [4096]


def test_a_size_that_does_not_fit_names_the_label():
    with pytest.raises(errors.InvalidArgumentError, match="label 'b'"):
        einsum(np, "ab,bc->ac", 2, F64)([np.ones((2, 3)), np.ones((2, 3))])


@pytest.mark.parametrize("equation", ["ab,bc", "ab->c", "ab", "a.b->ab", "ab,bc->ac,a"])
def test_a_bad_equation_is_refused_when_the_node_is_bound(equation):
    with pytest.raises(errors.InvalidArgumentError):
        einsum(np, equation, 2, F64)


@pytest.mark.jax
@pytest.mark.parametrize("equation", ["a->aa", "ab->abab"])
def test_repeated_output_labels_make_diagonals_on_jax(call, bind_kernel, equation):
    jax = pytest.importorskip("jax")
    x = (
        np.arange(1, 7, dtype=np.float32)[:2]
        if equation == "a->aa"
        else np.ones((2, 3), np.float32)
    )
    kernel = bind_kernel("Einsum", [x], backend="jax", equation=equation)
    np.testing.assert_array_equal(
        jax.jit(kernel.compute)(x), call("Einsum", [x], equation=equation)
    )
