"""Matrix products split over helper threads, and the threads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

from graphmill.runtime.process import blas_threads
from graphmill.runtime.process.intra_op import INTRA_OP
from graphmill_plugins.kernels import _matmul
from graphmill_plugins.kernels._helper_threads import HELPERS, Helpers

SHAPES = [
    (3, 4, 5),
    (300, 300, 300),
    (16, 512, 2048),
    (4096, 64, 64),
    (1, 4096, 4096),
    (512, 512, 1),
]


def numbers(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("is_transposed", [False, True])
def test_a_product_is_numpys(shape: tuple[int, int, int], is_transposed: bool) -> None:
    rows, inner, columns = shape
    a, b = numbers(rows, inner), numbers(inner, columns)
    if is_transposed:
        a, b = a.T.copy().T, b.T.copy().T
    result = _matmul.product(a, b)
    np.testing.assert_allclose(result, np.dot(a, b), rtol=1e-4, atol=1e-3)
    assert result.dtype == np.float32


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ((6, 128, 128), (6, 128, 128)),
        ((1, 12, 128, 64), (1, 12, 64, 128)),
        ((6, 128, 128), (128, 128)),
        ((2, 1, 64, 64), (1, 3, 64, 64)),
        ((0, 3, 4), (0, 4, 5)),
    ],
)
def test_stacks_are_numpys(x: tuple[int, ...], y: tuple[int, ...]) -> None:
    left, right = numbers(*x), numbers(*y)
    np.testing.assert_allclose(
        _matmul.stacked_product(left, right), np.matmul(left, right), rtol=1e-4, atol=1e-3
    )


def test_integers_are_left_to_numpy() -> None:
    a = np.arange(512 * 512).reshape(512, 512)
    assert np.array_equal(_matmul.product(a, a.T), np.dot(a, a.T))


def test_product_is_bitwise_deterministic() -> None:
    a, b = numbers(512, 512), numbers(512, 512)
    first = _matmul.product(a, b)
    idle, HELPERS._idle = HELPERS._idle, type(HELPERS._idle or [])()
    try:
        assert np.array_equal(_matmul.product(a, b), first)
    finally:
        HELPERS._idle = idle


def test_blas_has_its_threads_back_afterwards() -> None:
    state = {"threads": 4}
    control = blas_threads.SingleThreaded(
        blas_threads._Threads(lambda: state["threads"], lambda count: state.update(threads=count))
    )
    with control:
        with control:
            assert state == {"threads": 1}
        assert state == {"threads": 1}
    assert state == {"threads": 4}


def test_unknown_blas_library_is_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas_threads, "_loaded_libraries", list)
    assert blas_threads.find_blas_threads.__wrapped__() is None


def test_all_pieces_run_once() -> None:
    ran: list[int] = []
    Helpers(3).run([lambda number=number: ran.append(number) for number in range(50)])
    assert sorted(ran) == list(range(50))


@pytest.mark.parametrize("limit", [1, 2])
def test_no_more_threads_than_the_limit_take_pieces(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(INTRA_OP, "limit", limit)
    all_wait = threading.Barrier(limit)
    ran_in: set[int] = set()

    def piece() -> None:
        ran_in.add(threading.get_ident())
        if len(ran_in) <= limit:
            all_wait.wait(timeout=60)  # until each thread has a piece

    Helpers(4).run([piece] * (4 * limit))
    assert len(ran_in) == limit


def test_block_error_is_raised_after_all_blocks_end() -> None:
    ran: list[int] = []

    def piece(number: int) -> None:
        ran.append(number)
        if number == 1:
            raise ValueError("broken")

    helpers = Helpers(2)
    with pytest.raises(ValueError, match="broken"):
        helpers.run([lambda number=number: piece(number) for number in range(8)])
    assert sorted(ran) == list(range(8))


def test_many_callers_share_the_helpers() -> None:
    helpers = Helpers(2)
    sums = np.zeros(8)

    def work(caller: int) -> None:
        def add() -> None:
            counts.append(1)

        for _ in range(50):
            counts: list[int] = []
            helpers.run([add] * 5)
            sums[caller] += len(counts)

    threads = [threading.Thread(target=work, args=(caller,)) for caller in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (sums == 250).all()


FORKS = """
import multiprocessing
import numpy as np
from graphmill_plugins.kernels import _matmul
from graphmill_plugins.kernels._helper_threads import HELPERS

def work():
    assert np.allclose(_matmul.product(a, a), np.matmul(a, a), atol=1e-3)

a = np.random.default_rng(0).normal(size=(300, 300)).astype(np.float32)
work()
HELPERS.run([lambda: None, lambda: None])
child = multiprocessing.get_context("fork").Process(target=work)
child.start()
child.join(60)
assert child.exitcode == 0, child.exitcode
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_child_creates_its_own_helpers() -> None:
    # In a process of its own: this one may have threads of other libraries, which survive no fork.
    subprocess.run([sys.executable, "-c", FORKS], check=True, timeout=120)
