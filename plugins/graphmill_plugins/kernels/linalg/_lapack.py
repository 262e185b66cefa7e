"""NumPy's LAPACK functions, without BLAS threads for matrices of moderate size.

OpenBLAS's threads spin while they wait for each other (decision 0012). LAPACK calls BLAS many times
for one matrix. A matrix of 100 rows takes 0.2 ms without these threads, and 30 to 300 ms with them
as soon as other threads use the processors. Large matrices gain from the threads. The matrices of a
stack are independent, so large stacks are split over helper threads.

A call of LAPACK cannot be cancelled, so long ones run in a thread that a cancelled step abandons.
"""

from __future__ import annotations

import importlib
import math
from contextlib import nullcontext
from functools import cache, partial, wraps
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from graphmill.spi.process import find_blas_threads
from graphmill_plugins.kernels._abandonable_call import run_abandonable
from graphmill_plugins.kernels._helper_threads import HELPERS
from graphmill_plugins.kernels._support import check_size, is_numpy

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphmill.spi import ArrayNamespace
    from graphmill.spi.process import SingleThreaded

_T = TypeVar("_T")

_MIN_OPERATIONS: Final = 1 << 14  # multiply-adds of a matrix: for fewer, OpenBLAS uses one thread
_MAX_OPERATIONS: Final = 1 << 28  # multiply-adds, about 50 ms: more of them gain from threads
_MAX_ATTACHED_OPERATIONS: Final = 1 << 31  # multiply-adds of a stack: more of them may take seconds
_MIN_SPLIT_OPERATIONS: Final = 1 << 22  # multiply-adds of a stack: about 1 ms
_REPEATS: Final = dict.fromkeys(("eig", "eigh", "eigvals", "eigvalsh", "pinv", "svd"), 16)
"""How many times the operations of a product are those of the functions that iterate."""

_NAMES: Final = (
    *("cholesky", "det", "eig", "eigh", "eigvals", "eigvalsh"),
    *("inv", "pinv", "qr", "slogdet", "solve", "svd"),
)


def lapack(xp: ArrayNamespace) -> Any:
    """Return the namespace of linear algebra for arrays of `xp`."""
    return _FUNCTIONS if is_numpy(xp) else xp.linalg


@cache
def _blas_threads() -> SingleThreaded | None:
    return find_blas_threads()


@cache
def _scipy_blas_threads() -> SingleThreaded | None:
    importlib.import_module("scipy.linalg")  # loads the library
    return find_blas_threads("scipy")


def call_scipy(function: Callable[[Any], _T], matrix: Any, repeats: int) -> _T:
    """Call a function of `scipy.linalg` with a matrix, as one that takes as long as some products.

    SciPy's LAPACK uses threads for the smallest systems, too.

    Raises:
        CancelledError: the step was cancelled.
    """
    work = matrix.shape[-1] ** 3
    threads = _scipy_blas_threads() if work <= _MAX_OPERATIONS else None

    def compute() -> _T:
        with threads or nullcontext():
            return function(matrix)

    return attached_or_abandonable(compute, repeats * work)


def _single_threaded(function: Callable[..., Any]) -> Callable[..., Any]:
    repeats = _REPEATS.get(function.__name__, 1)

    def call(work: int, x: Any, *others: Any, **options: Any) -> Any:
        threads = _blas_threads() if _MIN_OPERATIONS < work <= _MAX_OPERATIONS else None
        if threads is None:
            return function(x, *others, **options)
        with threads:
            if _is_worth_splitting(x, others, work):
                return _in_pieces(function, (x, *others), options)
            return function(x, *others, **options)

    @wraps(function)
    def call_or_abandon(x: Any, *others: Any, **options: Any) -> Any:
        rows, columns = x.shape[-2:]
        batch = x.shape[:-2]
        if not x.size:  # LAPACK's buffers have the size of a matrix nevertheless
            shape = (max(rows, 1), max(columns, 1))
            check_size(shape, "a matrix of an empty stack", itemsize=x.itemsize)
        if not rows * columns and math.prod(batch) and all(y.shape[:-2] == batch for y in others):
            return _of_empty_matrices(function, (x, *others), options)
        work = rows * columns * min(rows, columns)
        compute = partial(call, work, x, *others, **options)
        return attached_or_abandonable(compute, work * math.prod(batch) * repeats)

    return call_or_abandon


def _of_empty_matrices(
    function: Callable[..., Any], stacks: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """Apply a function to one of the matrices without elements of a stack, and repeat the result.

    The stack has no bytes, so it may have more matrices than there is time for.

    Raises:
        ResourceExhaustedError: the results are larger than the memory budget.
    """
    batch = stacks[0].shape[:-2]
    found = function(*[stack[(0,) * len(batch)] for stack in stacks], **options)
    if isinstance(found, tuple):
        return tuple(_repeated(np.asarray(one), batch) for one in found)
    return _repeated(np.asarray(found), batch)


def _repeated(value: Any, batch: tuple[int, ...]) -> Any:
    check_size((*batch, *value.shape), itemsize=value.itemsize)
    return np.array(np.broadcast_to(value, (*batch, *value.shape)))


def attached_or_abandonable(compute: Callable[[], _T], work: int) -> _T:
    """Return the result of a call of `work` multiply-adds, which a step can abandon if it is long.

    Raises:
        CancelledError: the step was cancelled.
    """
    return run_abandonable(compute) if work > _MAX_ATTACHED_OPERATIONS else compute()


def _is_worth_splitting(x: Any, others: tuple[Any, ...], work: int) -> bool:
    """Return whether a stack is worth splitting; `work` is that of each matrix."""
    if x.ndim < 3 or x.shape[0] < 2:
        return False
    if work * math.prod(x.shape[:-2]) < _MIN_SPLIT_OPERATIONS:
        return False
    return all(other.ndim == x.ndim and other.shape[0] == x.shape[0] for other in others)


def _in_pieces(
    function: Callable[..., Any], stacks: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """Apply a function to parts of stacks on several threads; return the joined results."""
    size = stacks[0].shape[0]
    step = -(-size // min(size, HELPERS.processors))
    cuts = [slice(start, start + step) for start in range(0, size, step)]
    pieces: list[Any] = [None] * len(cuts)

    def compute(index: int) -> None:
        pieces[index] = function(*[stack[cuts[index]] for stack in stacks], **options)

    HELPERS.run([partial(compute, index) for index in range(len(cuts))])
    if isinstance(pieces[0], tuple):
        return tuple(np.concatenate(parts) for parts in zip(*pieces, strict=True))
    return np.concatenate(pieces)


_FUNCTIONS: Final = SimpleNamespace(
    **{name: _single_threaded(getattr(np.linalg, name)) for name in _NAMES}
)
