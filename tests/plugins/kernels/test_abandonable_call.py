"""Long calls of libraries run in threads that cancelled steps abandon."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops
from graphmill_plugins.kernels import _abandonable_call
from graphmill_plugins.kernels._abandonable_call import run_abandonable
from graphmill_plugins.kernels.linalg import _lapack


def test_result_is_returned() -> None:
    assert run_abandonable(lambda: 7) == 7


def test_error_is_raised_in_the_callers_thread() -> None:
    def fail() -> None:
        raise np.linalg.LinAlgError("Singular matrix")

    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        run_abandonable(fail)


def test_cancelled_step_leaves_the_call_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    end, ended = threading.Event(), threading.Event()

    def compute() -> None:
        end.wait()
        ended.set()

    def check_cancelled() -> None:
        raise errors.CancelledError("the step was cancelled")

    monkeypatch.setattr(_abandonable_call, "check_cancelled", check_cancelled)
    monkeypatch.setattr(_abandonable_call, "_INTERVAL", 0.001)
    with pytest.raises(errors.CancelledError):
        run_abandonable(compute)
    assert not ended.is_set()
    end.set()
    assert ended.wait(60)


@pytest.mark.parametrize("shape", [(8, 8), (3, 8, 8)])
def test_step_ends_at_its_deadline_while_lapack_computes(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]
) -> None:
    end, ended = threading.Event(), threading.Event()
    svd: Any = np.linalg.svd

    def slow(x: Any, **options: Any) -> Any:
        end.wait()
        ended.set()
        return svd(x, **options)

    monkeypatch.setattr(_lapack, "_MAX_ATTACHED_OPERATIONS", 100)
    monkeypatch.setattr(_lapack._FUNCTIONS, "svd", _lapack._single_threaded(slow))
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", shape)
        values = ops.linalg.svd(x)[0]
    config = {"operation_timeout_in_ms": 200, "graphmill": {"jit": "off"}}
    with graphmill.Session(graph=graph, config=config) as session:
        with pytest.raises(errors.DeadlineExceededError):
            session.run(values, {x: np.ones(shape, np.float32)})
        end.set()
        assert ended.wait(60)
    with graphmill.Session(graph=graph, config={"graphmill": {"jit": "off"}}) as session:
        answer = session.run(values, {x: np.ones(shape, np.float32)})
    assert answer[..., 0] == pytest.approx(8.0)


def test_function_that_iterates_is_left_behind_at_a_smaller_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left: list[str] = []

    def record(compute: Any) -> Any:
        left.append("left")
        return compute()

    monkeypatch.setattr(_lapack, "_MAX_ATTACHED_OPERATIONS", 1_000)
    monkeypatch.setattr(_lapack, "run_abandonable", record)
    x = np.eye(8, dtype=np.float32)  # 512 operations for a product
    assert _lapack.lapack(np).inv(x).tolist() == x.tolist()
    assert left == []
    assert _lapack.lapack(np).svd(x, compute_uv=False).tolist() == [1.0] * 8
    assert left == ["left"]


def test_long_product_has_pieces_between_which_a_step_can_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from graphmill_plugins.kernels import _matmul

    if _matmul._blas_threads() is None:
        pytest.skip("the threads of this BLAS cannot be set")
    pieces: list[int] = []
    monkeypatch.setattr(_matmul, "_MAX_PIECE_OPERATIONS", 1 << 20)
    run = _matmul.HELPERS.run
    monkeypatch.setattr(
        _matmul.HELPERS, "run", lambda parts: (pieces.append(len(parts)), run(parts))
    )
    a = np.random.default_rng(5).standard_normal((512, 256)).astype(np.float32)
    b = np.random.default_rng(6).standard_normal((256, 128)).astype(np.float32)
    np.testing.assert_allclose(_matmul.product(a, b), a @ b, rtol=1e-4, atol=1e-4)
    assert pieces == [16]
