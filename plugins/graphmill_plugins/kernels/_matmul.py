"""Matrix products on NumPy; large ones are split over helper threads.

OpenBLAS's own threads spin while they wait for each other. If other threads or processes compete
for the processors, a product of 1 ms then takes 50 ms. So a large product is split here, and one
thread computes each piece.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.spi.process import find_blas_threads
from graphmill_plugins.kernels._helper_threads import HELPERS
from graphmill_plugins.kernels._support import check_size, is_numpy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from graphmill.spi import ArrayNamespace, Value
    from graphmill.spi.process import SingleThreaded

_MAX_SERIAL_OPERATIONS: Final = 1 << 18  # multiply-adds that OpenBLAS computes in one thread
_MIN_SHARED_OPERATIONS: Final = 1 << 23  # multiply-adds: about 0.1 ms, several times the handover
_MIN_PIECE_SIZE: Final = 16  # minimum number of rows or columns of a piece
_MAX_PIECE_OPERATIONS: Final = 1 << 33  # multiply-adds: about a second, then a step can end
_MAX_PLAIN_PIECE_OPERATIONS: Final = 1 << 27  # the same without BLAS: a tenth of a second
_PIECES_PER_THREAD: Final = 2  # per thread, so that a thread that starts late still finds work


@cache
def _blas_threads() -> SingleThreaded | None:
    return find_blas_threads()


def adjoint_of(xp: ArrayNamespace, x: Value) -> Value:
    """Return the conjugate transposes of a stack of matrices."""
    x = xp.swapaxes(x, -1, -2)
    return xp.conj(x) if x.dtype.kind == "c" else x


def product(a: Any, b: Any) -> Any:
    """Return the product of two matrices of one dtype."""
    work = a.size * b.shape[1]
    if work > _MAX_SERIAL_OPERATIONS or not work:  # else the product is small
        check_size((a.shape[0], b.shape[1]), itemsize=a.itemsize)
    if work <= _MAX_SERIAL_OPERATIONS:
        return np.dot(a, b)  # the same BLAS call as np.matmul, at a third of its overhead
    if a.dtype.char not in "fdFD":
        return _product_without_blas(a, b, work)
    return product_into(a, b, np.empty((a.shape[0], b.shape[1]), a.dtype))


def product_into(a: Any, b: Any, out: Any) -> Any:
    """Write the product of two matrices of one dtype to `out`; return `out`."""
    work = a.size * b.shape[1]
    threads = _blas_threads() if work > _MAX_SERIAL_OPERATIONS and a.dtype.char in "fdFD" else None
    if threads is None:
        return np.matmul(a, b, out=out)
    with threads:
        rows, columns = out.shape
        by_columns = columns > rows  # BLAS packs the uncut operand for each piece
        pieces = max(_PIECES_PER_THREAD * HELPERS.processors, work // _MAX_PIECE_OPERATIONS)
        pieces = min(pieces, (columns if by_columns else rows) // _MIN_PIECE_SIZE)
        if pieces < 2 or work < _MIN_SHARED_OPERATIONS:
            return np.matmul(a, b, out=out)
        if by_columns:
            parts = [(a, b[:, cut], out[:, cut]) for cut in _cuts(columns, pieces)]
        else:
            parts = [(a[cut], b, out[cut]) for cut in _cuts(rows, pieces)]
        HELPERS.run([partial(np.matmul, left, right, out=part) for left, right, part in parts])
    return out


def product_alone(a: Any, b: Any, out: Any) -> None:
    """Write the product of two matrices to `out` on this thread, for a piece of shared work."""
    with _blas_threads() or nullcontext():
        np.matmul(a, b, out=out)


def matmul_of(xp: ArrayNamespace) -> Callable[[Any, Any], Any]:
    """Return the function that multiplies stacks of matrices of a namespace."""
    return stacked_product if is_numpy(xp) else xp.matmul


def stacked_product(x: Any, y: Any) -> Any:
    """Return the products of two stacks of matrices of one dtype; stacks broadcast."""
    if x.ndim == y.ndim == 2:
        return product(x, y)
    work = max(x.size * y.shape[-1], y.size * x.shape[-2])
    if work > _MAX_SERIAL_OPERATIONS or not work or x.shape[:-2] != y.shape[:-2]:
        stacks = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        check_size((*stacks, x.shape[-2], y.shape[-1]), itemsize=x.itemsize)
    if work > _MAX_SERIAL_OPERATIONS and x.dtype.char not in "fdFD":
        return _product_without_blas(x, y, work)
    threads = _blas_threads() if work > _MAX_SERIAL_OPERATIONS else None
    if threads is None:
        return np.matmul(x, y)
    with threads:
        stack = x.shape[:-2]
        axis = next((axis for axis, size in enumerate(stack) if size > 1), None)
        if axis is None or stack != y.shape[:-2] or work < _MIN_SHARED_OPERATIONS:
            return np.matmul(x, y)
        out = np.empty((*stack, x.shape[-2], y.shape[-1]), x.dtype)
        pieces = min(_PIECES_PER_THREAD * HELPERS.processors, stack[axis])
        cuts = [(slice(None),) * axis + (cut,) for cut in _cuts(stack[axis], pieces, 1)]
        HELPERS.run([partial(np.matmul, x[cut], y[cut], out=out[cut]) for cut in cuts])
    return out


def _product_without_blas(x: Any, y: Any, work: int) -> Any:
    """Return the products of stacks of matrices of a type that BLAS does not multiply."""
    stack = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    out = np.empty((*stack, x.shape[-2], y.shape[-1]), x.dtype)
    axis = int(np.argmax(out.shape)) - out.ndim
    pieces = min(max(HELPERS.processors, work // _MAX_PLAIN_PIECE_OPERATIONS), out.shape[axis])
    if pieces < 2 or work < _MIN_SHARED_OPERATIONS:
        return np.matmul(x, y, out=out)
    x = np.broadcast_to(x, (*stack, *x.shape[-2:]))
    y = np.broadcast_to(y, (*stack, *y.shape[-2:]))
    after = (slice(None),) * (-1 - axis)
    parts = []
    for cut in _cuts(out.shape[axis], pieces, 1):
        index: Any = (..., cut, *after)
        left = x if axis == -1 else x[index]
        right = y if axis == -2 else y[index]
        parts.append(partial(np.matmul, left, right, out=out[index]))
    HELPERS.run(parts)
    return out


def _cuts(size: int, pieces: int, multiple: int = _MIN_PIECE_SIZE) -> Iterator[slice]:
    """Cut a size into nearly equal slices, multiples of the blocks that BLAS computes in."""
    step = -(-size // (pieces * multiple)) * multiple
    return (slice(start, min(start + step, size)) for start in range(0, size, step))
