"""Compiled ops return the interpreter's results for infinities, NaN and extremes (clause E8).

All ops: `python tools/verify_jit.py --values`.
"""

from __future__ import annotations

import pytest

from graphmill.testing.case import load_cases
from graphmill.testing.differential.compiled_ops import value_differences

pytestmark = [pytest.mark.jax, pytest.mark.divided]

# Some whose compiled form is another formula, or must be kept from being contracted.
OPS = ("AdjustHue", "Betainc", "Cholesky", "CropAndResize", "Expint", "FakeQuantWithMinMaxArgs")
MORE = ("Igamma", "LowerBound", "Polygamma", "Pow", "UnsortedSegmentMin", "Zeta")


@pytest.mark.parametrize("op", [*OPS, *MORE])
def test_unusual_values_are_computed_as_the_interpreter_does_e8(op, graphmill_host):
    cases = [case for case in load_cases() if case.op == op]
    assert not list(value_differences(op, cases, graphmill_host))
