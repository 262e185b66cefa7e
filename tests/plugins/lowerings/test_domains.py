"""Checks without an error reject values that only the kernel computes correctly."""

from __future__ import annotations

import numpy as np
import pytest

from graphmill.errors import InvalidArgumentError
from graphmill.spi import NotTraceable
from graphmill_plugins.lowerings.linear_algebra import matrices_are_real

f32, i32 = np.float32, np.int32
IMAGE, BOX = np.ones((1, 2, 2, 3), f32), np.array([[0, 0, 1, 1]], f32)
CROP, NO_BOX = np.array([2, 2], i32), np.zeros(1, i32)
RANGE = {"range_given": True}


def x(*values):
    return np.array(values, f32)


USUAL = [
    ("Igamma", [x(1), x(0)], {}),
    ("Igammac", [x(9000), x(9000)], {}),
    ("Igamma", [np.float64([60]), np.float64([60])], {}),
    ("IgammaGradA", [x(0.5), x(1)], {}),
    ("Zeta", [x(2), x(1)], {}),
    ("Polygamma", [x(1), x(3)], {}),
    ("Betainc", [x(1), x(2), x(0)], {}),
    ("RandomGammaGrad", [x(1), x(1)], {}),
    ("AdjustHue", [IMAGE, f32(0.5)], {}),
    ("LowerBound", [np.array([x(1, 2, 2)]), np.array([x(2)])], {}),
    ("UpperBound", [np.array([x(1, 2, 2)]), np.array([x(2)])], {}),
    ("Pow", [np.complex64([1j, -1]), np.complex64([0, 2])], {}),
    ("Pow", [x(0, np.inf), x(-1, 2)], {}),
    ("CropAndResize", [IMAGE, BOX, NO_BOX, CROP], {}),
    ("FakeQuantWithMinMaxVars", [x(1e38), f32(-1), f32(1)], {}),
    ("FakeQuantWithMinMaxVarsPerChannel", [x(1), x(-1), x(1)], {}),
    ("FakeQuantWithMinMaxVarsGradient", [x(1), x(1), f32(-1), f32(1)], {}),
    ("QuantizeAndDequantizeV2", [x(1e38), f32(-1), f32(1)], RANGE),
    ("QuantizeAndDequantizeV4", [x(1), f32(-1e38), f32(1)], {"range_given": False}),
    ("Lu", [np.eye(2, dtype=f32)], {}),
]
UNUSUAL = [
    ("Igamma", [x(0), x(1)], {}),
    ("Igammac", [x(1), x(np.inf)], {}),
    ("Igamma", [np.float64([100]), np.float64([60])], {}),
    ("IgammaGradA", [x(1e-3), x(1)], {}),
    ("Zeta", [x(1), x(1)], {}),
    ("Polygamma", [x(1), x(0)], {}),
    ("Polygamma", [x(1), x(np.nan)], {}),
    ("Betainc", [x(1), x(2), x(1.5)], {}),
    ("RandomGammaGrad", [x(1), x(1e5)], {}),
    ("AdjustHue", [IMAGE * np.nan, f32(0.5)], {}),
    ("AdjustHue", [IMAGE, f32(np.inf)], {}),
    ("LowerBound", [np.array([x(2, 1)]), np.array([x(2)])], {}),
    ("UpperBound", [np.array([x(1, 2)]), np.array([x(np.nan)])], {}),
    ("Pow", [np.complex64([0]), np.complex64([1])], {}),
    ("Pow", [np.complex64([1]), np.complex64([np.inf])], {}),
    ("CropAndResize", [IMAGE, BOX * f32(1e7), NO_BOX, CROP], {}),
    ("CropAndResizeGradBoxes", [np.ones((1, 2, 2, 3), f32), IMAGE, BOX * 1e7, NO_BOX], {}),
    ("FakeQuantWithMinMaxVars", [x(1), f32(-1), f32(2e30)], {}),
    ("FakeQuantWithMinMaxVarsPerChannel", [x(1), x(-2e30), x(1)], {}),
    ("FakeQuantWithMinMaxVarsGradient", [x(1), x(1), f32(-1), f32(2e30)], {}),
    ("FakeQuantWithMinMaxVarsPerChannelGradient", [x(1), x(2e30), x(-1), x(1)], {}),
    ("QuantizeAndDequantizeV2", [x(1), f32(-1), f32(2e30)], RANGE),
    ("QuantizeAndDequantizeV4", [x(2e30), f32(0), f32(0)], {"range_given": False}),
]


@pytest.mark.parametrize(("op", "inputs", "attrs"), USUAL)
def test_usual_values_may_be_compiled(op, inputs, attrs, checked):
    made = checked(op, *inputs, **attrs)
    assert made.failed_inputs() == []
    made.compute()


@pytest.mark.parametrize(("op", "inputs", "attrs"), UNUSUAL)
def test_unusual_values_are_left_to_the_kernel_which_computes_them(op, inputs, attrs, checked):
    made = checked(op, *inputs, **attrs)
    assert [check.error for check in made.failed_inputs()] == [None]
    made.compute()


def test_pivots_of_complex_matrices_are_not_traced():
    with pytest.raises(NotTraceable, match="different pivots for complex matrices"):
        matrices_are_real(np, np.eye(2, dtype=np.complex64))


REGULAR, SINGULAR = np.array([[2, 1], [1, 2]], f32), np.ones((2, 2), f32)
RHS = np.ones((2, 1), f32)
SOLVERS = [
    ("MatrixInverse", lambda matrix: [matrix]),
    ("MatrixSolve", lambda matrix: [matrix, RHS]),
    ("Lu", lambda matrix: [matrix]),
]


@pytest.mark.parametrize(("op", "inputs"), SOLVERS)
def test_singular_matrix_gives_nan_in_compiled_code(op, inputs, checked):
    made = checked(op, *inputs(REGULAR))
    results = made.compute()
    assert made.failed("results", results) == []
    results[0][...] = 0 if op == "Lu" else np.inf
    (failed,) = made.failed("results", results)
    assert failed.error is InvalidArgumentError
    with pytest.raises(failed.error):
        checked(op, *inputs(SINGULAR)).compute()
