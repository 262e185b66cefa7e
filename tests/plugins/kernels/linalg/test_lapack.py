"""LAPACK's functions use one BLAS thread for matrices of moderate size; large stacks are split."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from graphmill_plugins.kernels.linalg import _lapack
from graphmill_plugins.kernels.linalg._lapack import call_scipy, lapack

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFINITE = ("cholesky", "det", "eigh", "eigvalsh", "inv", "slogdet", "svd", "qr")


def definite(*shape: int) -> Any:
    x = np.random.default_rng(3).standard_normal(shape)
    return x @ x.swapaxes(-1, -2) + shape[-1] * np.eye(shape[-1])


def arrays_of(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("name", DEFINITE)
@pytest.mark.parametrize("shape", [(3, 3), (40, 40), (7, 40, 40), (3, 2, 40, 40), (0, 40, 40)])
def test_the_results_are_those_of_numpy(
    monkeypatch: pytest.MonkeyPatch, name: str, shape: tuple[int, ...]
) -> None:
    monkeypatch.setattr(_lapack, "_MIN_SPLIT_OPERATIONS", 1)
    x = definite(*shape)
    found = arrays_of(getattr(lapack(np), name)(x))
    expected = arrays_of(getattr(np.linalg, name)(x))
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)
        assert ours.dtype == theirs.dtype


@pytest.mark.parametrize("shape", [(5, 40, 3), (1, 40, 3), (40, 3)])
def test_right_hand_sides_are_split_with_their_matrices(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]
) -> None:
    """Right-hand sides are split with their matrices, unless they are broadcast."""
    monkeypatch.setattr(_lapack, "_MIN_SPLIT_OPERATIONS", 1)
    matrices, rhs = definite(5, 40, 40), np.random.default_rng(4).standard_normal(shape)
    found = lapack(np).solve(matrices, rhs)
    np.testing.assert_allclose(found, np.linalg.solve(matrices, rhs), rtol=1e-9)


def test_an_error_in_one_piece_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_lapack, "_MIN_SPLIT_OPERATIONS", 1)
    matrices = definite(6, 40, 40)
    matrices[4] = 0
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        lapack(np).inv(matrices)


@pytest.mark.parametrize(("rows", "is_limited"), [(8, False), (100, True), (700, False)])
def test_moderate_matrices_use_one_thread(
    monkeypatch: pytest.MonkeyPatch, rows: int, is_limited: bool
) -> None:
    """BLAS uses one thread for matrices of moderate size only."""
    entered: list[int] = []

    @contextmanager
    def one_thread() -> Iterator[None]:
        entered.append(rows)
        yield

    monkeypatch.setattr(_lapack, "_blas_threads", one_thread)
    lapack(np).cholesky(np.eye(rows))
    assert bool(entered) == is_limited


@pytest.mark.parametrize(("rows", "is_limited"), [(2, True), (700, False)])
def test_scipy_uses_one_thread_for_all_but_large_matrices(
    monkeypatch: pytest.MonkeyPatch, rows: int, is_limited: bool
) -> None:
    entered = []

    @contextmanager
    def one_thread() -> Iterator[None]:
        entered.append(rows)
        yield

    monkeypatch.setattr(_lapack, "_scipy_blas_threads", one_thread)
    assert call_scipy(len, np.eye(rows), repeats=1) == rows
    assert bool(entered) == is_limited


def test_scipy_is_loaded_before_its_library_is_looked_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded = []
    monkeypatch.setattr(_lapack.importlib, "import_module", loaded.append)
    monkeypatch.setattr(_lapack, "find_blas_threads", lambda package: (package, *loaded))
    _lapack._scipy_blas_threads.cache_clear()
    assert _lapack._scipy_blas_threads() == ("scipy", "scipy.linalg")
    _lapack._scipy_blas_threads.cache_clear()


def test_other_namespaces_have_their_own_functions() -> None:
    class Namespace:
        linalg = object()

    assert lapack(Namespace) is Namespace.linalg
