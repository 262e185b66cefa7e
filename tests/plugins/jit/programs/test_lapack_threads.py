"""Programs that call LAPACK for matrices of moderate size run with one BLAS thread."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytestmark = [pytest.mark.jax, pytest.mark.divided]

jax = pytest.importorskip("jax")

import graphmill  # noqa: E402
from graphmill_plugins.jit.programs import lapack_threads  # noqa: E402


class Threads:
    """Counts the blocks with one thread."""

    def __init__(self) -> None:
        self.blocks = self.depth = 0

    def __enter__(self) -> None:
        self.blocks += 1
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.depth -= 1


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Threads:
    made = Threads()
    monkeypatch.setattr(lapack_threads, "find_blas_threads", lambda _: made)
    return made


def cholesky(x: Any) -> Any:
    return jax.numpy.linalg.cholesky(x)


def nested(x: Any) -> Any:
    return jax.lax.fori_loop(0, 2, lambda _, y: jax.numpy.linalg.solve(y, x), x)


def traced(function: Any, *shape: int) -> Any:
    return jax.make_jaxpr(function)(jax.ShapeDtypeStruct(shape, np.float32))


@pytest.mark.parametrize("function", [cholesky, nested])
def test_factorisation_runs_with_one_thread(threads: Threads, function: Any) -> None:
    def call(x: int) -> int:
        assert threads.depth == 1
        return x + 1

    found = lapack_threads.without_blas_threads(call, traced(function, 3, 100, 100))
    assert found(1) == 2
    assert (threads.blocks, threads.depth) == (1, 0)


@pytest.mark.parametrize(
    ("closed", "platform"),
    [
        (traced(cholesky, 500, 8, 8), "cpu"),
        (traced(cholesky, 2000, 2000), "cpu"),
        (traced(lambda x: x @ x, 100, 100), "cpu"),
        (traced(cholesky, 100, 100), "gpu"),
    ],
    ids=["small", "large", "product", "gpu"],
)
def test_other_programs_are_called_as_they_are(closed: Any, platform: str) -> None:
    assert lapack_threads.without_blas_threads(len, closed, platform) is len


def test_programs_are_called_directly_without_openblas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lapack_threads, "find_blas_threads", lambda _: None)
    assert lapack_threads.without_blas_threads(len, traced(cholesky, 100, 100)) is len


def test_compiled_graph_factors_with_one_thread(threads: Threads) -> None:
    value = np.eye(60, dtype=np.float32) * 4
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [60, 60], name="x")
        y = graphmill.ops.linalg.cholesky(x + 0.0)
    with graphmill.Session(graph=graph, config={"graphmill": {"jit": "eager"}}) as session:
        np.testing.assert_array_equal(session.run(y, {x: value}), np.sqrt(value))
    assert threads.blocks
