"""Tests of graphmill_plugins.kernels.jax.math_gamma: enough terms, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill_plugins.kernels.jax import math_gamma, random_gamma
from graphmill_plugins.kernels.jax.math_gamma import SPECIAL
from graphmill_plugins.kernels.math.igamma_grad import igamma_grad_a

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

jax = pytest.importorskip("jax")

_LARGEST = {"float32": 1e4, "float64": 64.0}  # what the compiled form is used for
_ERRORS = {"float32": 1.0, "float64": 128.0}  # in units of the last place of 1 or the result


@pytest.fixture(autouse=True)
def _double_precision() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def _compiled(op: str) -> Callable[..., Any]:
    kernels = {op: kernel for kernel in SPECIAL for op in kernel.ops}
    made = kernels[op].function
    return jax.jit(lambda a, x: made(jax.numpy, a.dtype)(a, x))  # type: ignore[no-any-return]


def _arguments(dtype: str) -> tuple[np.ndarray[Any, Any], ...]:
    """Draw arguments over the whole domain, half of them close to each other."""
    rng, digits = np.random.default_rng(5), np.log10(_LARGEST[dtype])
    a = 10 ** rng.uniform(-6, digits, 4000)
    x = np.where(rng.random(4000) < 0.5, a * 10 ** rng.normal(0, 0.1, 4000), a[::-1])
    return a.astype(dtype), np.clip(x, 1e-6, _LARGEST[dtype]).astype(dtype)


def _assert_close(value: Any, expected: Any, dtype: str, factor: float = 1.0) -> None:
    tolerance = factor * _ERRORS[dtype] * float(np.finfo(dtype).eps)
    assert np.asarray(value).dtype == dtype
    np.testing.assert_allclose(value, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("op", "name"), [("Igamma", "gammainc"), ("Igammac", "gammaincc")])
def test_functions_are_exact_in_their_domain(op: str, name: str, dtype: str) -> None:
    special = pytest.importorskip("scipy.special")
    a, x = _arguments(dtype)
    expected = getattr(special, name)(a.astype(np.float64), x.astype(np.float64))
    _assert_close(_compiled(op)(a, x), expected, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_derivative_is_exact_in_its_domain(dtype: str) -> None:
    pytest.importorskip("scipy.special")
    a, x = (np.maximum(value, np.array(0.01, dtype)) for value in _arguments(dtype))
    expected = igamma_grad_a(a.astype(float), x.astype(float), T=np.dtype(np.float64))
    _assert_close(_compiled("IgammaGradA")(a, x), expected, dtype, factor=64)


def test_small_probabilities_keep_their_digits() -> None:
    special = pytest.importorskip("scipy.special")
    a, x = np.array([[0.5, 3, 40, 5000], [60, 70, 120, 5900]], np.float32)
    expected = special.gammaincc(a.astype(np.float64), x.astype(np.float64))
    np.testing.assert_allclose(_compiled("Igammac")(a, x), expected, rtol=2e-7)


def test_the_slope_of_samples_is_the_derivative_of_their_quantile() -> None:
    special = pytest.importorskip("scipy.special")
    a = np.array([0.3, 1, 4.5, 30, 200.0])
    shares = np.array([[0.01], [0.3], [0.6], [0.99]])
    step = 1e-5 * a
    moved = [special.gammaincinv(a + change, shares) for change in (step, -step)]
    slope = random_gamma.random_gamma_grad(a, special.gammaincinv(a, shares))
    np.testing.assert_allclose(slope, (moved[0] - moved[1]) / (2 * step), rtol=1e-6)


@pytest.mark.parametrize("op", ["Igamma", "Igammac", "IgammaGradA"])
def test_empty_arrays_have_empty_results(op: str) -> None:
    empty = np.zeros((0, 3), np.float32)
    assert _compiled(op)(empty, empty).shape == (0, 3)


@pytest.mark.parametrize("op", ["Igamma", "Igammac"])
def test_exported_functions_can_be_differentiated(op: str) -> None:
    function, step = _compiled(op), np.float64(1e-6)
    for a, x in np.array([(2.5, 1.5), (0.7, 3.0)]):
        slopes = jax.grad(function, (0, 1))(a, x)
        moved = (
            function(a + step, x) - function(a - step, x),
            function(a, x + step) - function(a, x - step),
        )
        np.testing.assert_allclose(slopes, np.array(moved) / (2 * step), rtol=1e-6)


def test_a_form_that_no_element_needs_has_no_terms(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers: list[int] = []
    backwards = math_gamma._backwards

    def counted(terms: Any, *rest: Any) -> Any:
        numbers.append(int(terms))
        return backwards(terms, *rest)

    monkeypatch.setattr(math_gamma, "_backwards", counted)
    with jax.disable_jit():
        math_gamma._igamma_grad(*np.array([[1, 2], [0.5, 2]], np.float32))
        math_gamma._igamma_grad(*np.array([[1, 2], [4, 2.5]], np.float32))
    series, no_fraction, no_series, fraction = numbers
    assert no_fraction == no_series == 0
    assert 10 < series < 40
    assert 10 < fraction < 40
