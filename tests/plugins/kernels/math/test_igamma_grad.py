"""Tests of graphmill_plugins.kernels.math.igamma_grad: how soon its series end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from graphmill_plugins.kernels.math import igamma_grad

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.mark.parametrize(("dtype", "most"), [("float32", 80), ("float64", 300)])
def test_series_end_when_the_result_is_exact(
    monkeypatch: pytest.MonkeyPatch, dtype: str, most: int
) -> None:
    special = pytest.importorskip("scipy.special")
    terms: list[int] = []

    def counted(numbers: range, _: int) -> Iterator[int]:
        for number in numbers:
            terms.append(number)
            yield number

    monkeypatch.setattr(igamma_grad, "cancellable", counted)
    rng = np.random.default_rng(4)
    a = (np.abs(rng.standard_normal(15)) + 0.3).astype(dtype)
    slopes = igamma_grad.igamma_grad_a(a, a + 1, T=np.dtype(dtype))

    assert max(terms) < most
    step = 1e-5
    wide = a.astype(np.float64)
    x = (a + 1).astype(np.float64)
    expected = (special.gammainc(wide + step, x) - special.gammainc(wide - step, x)) / (2 * step)
    np.testing.assert_allclose(slopes, expected, rtol=1e-4)


def test_convergents_of_large_arguments_do_not_overflow() -> None:
    pytest.importorskip("scipy.special")
    slope = igamma_grad.igamma_grad_a(
        np.array([1e8]), np.array([1e8 + 5e3]), T=np.dtype(np.float64)
    )
    np.testing.assert_allclose(slope, -3.52058e-05, rtol=1e-5)
