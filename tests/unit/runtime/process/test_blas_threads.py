"""The OpenBLAS of a package is found, and controlled in one place."""

from __future__ import annotations

from typing import Any

import pytest

from graphmill.runtime.process import blas_threads
from graphmill.runtime.process.blas_threads import find_blas_threads

NUMPY = "/env/numpy.libs/libscipy_openblas64_.so"
SCIPY = "/env/scipy.libs/libscipy_openblas.so"
SYSTEM = "/usr/lib/libopenblas.so.0"


@pytest.fixture
def find(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that finds a package's library among those that are loaded."""
    monkeypatch.setattr(blas_threads, "_control_of", lambda path: path)
    monkeypatch.setattr(blas_threads.effects, "disabled", frozenset)

    def found(package: str, *loaded: str) -> Any:
        monkeypatch.setattr(blas_threads, "_loaded_libraries", lambda: list(loaded))
        return find_blas_threads.__wrapped__(package)

    return found


def test_find_prefers_the_library_of_the_package(find: Any) -> None:
    assert find("numpy", SCIPY, NUMPY) == NUMPY
    assert find("scipy", NUMPY, SCIPY) == SCIPY


def test_find_returns_the_shared_library_without_wheels(find: Any) -> None:
    assert find("numpy", SYSTEM) == find("scipy", SYSTEM) == SYSTEM


def test_find_returns_none_without_openblas(find: Any) -> None:
    assert find("scipy") is None


def test_packages_with_one_library_share_its_control(monkeypatch: pytest.MonkeyPatch) -> None:
    if find_blas_threads() is None:
        pytest.skip("NumPy has no OpenBLAS here")
    own = next(path for path in blas_threads._loaded_libraries() if blas_threads._control_of(path))
    monkeypatch.setattr(blas_threads, "_loaded_libraries", lambda: [own])
    find = find_blas_threads.__wrapped__
    assert find("numpy") is find("scipy")
