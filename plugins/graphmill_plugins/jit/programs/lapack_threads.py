"""Run programs that call LAPACK without BLAS threads for matrices of moderate size.

XLA's CPU programs call the LAPACK of SciPy for factorisations and triangular systems. The threads
of its OpenBLAS spin while they wait for each other (decision 0012): beside other work, systems of
200 rows take a hundred times as long with them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import jax

from graphmill.spi.process import find_blas_threads
from graphmill_plugins.jit.programs.compiler_options import operations

if TYPE_CHECKING:
    from collections.abc import Callable

    from jax.extend import core

_MIN_OPERATIONS: Final = 1 << 14  # multiply-adds of a matrix: fewer are not distributed by OpenBLAS
_MAX_OPERATIONS: Final = 1 << 28  # multiply-adds: more gain from threads


def without_blas_threads(
    call: Callable[..., Any], closed: core.ClosedJaxpr, platform: str = "cpu"
) -> Callable[..., Any]:
    """Return a function that calls a program, with one BLAS thread if it calls LAPACK.

    Args:
        call: the compiled program.
        closed: the jaxpr from which it was compiled.
        platform: the platform for which it was compiled.
    """
    if platform != "cpu" or not _MIN_OPERATIONS < lapack_work(closed.jaxpr) <= _MAX_OPERATIONS:
        return call
    threads = find_blas_threads("scipy")
    if threads is None:
        return call

    def call_with_one_thread(*arguments: Any) -> Any:
        with threads:
            return jax.block_until_ready(call(*arguments))

    return call_with_one_thread


def lapack_work(jaxpr: core.Jaxpr) -> int:
    """Return the approximate number of multiply-adds for the largest matrix given to LAPACK."""
    return max(
        (
            _work_of(variable.aval.shape)
            for eqn in operations(jaxpr)
            if eqn.primitive in _linear_algebra()
            for variable in eqn.invars
        ),
        default=0,
    )


def _work_of(shape: tuple[int, ...]) -> int:
    if len(shape) < 2:
        return 0
    rows, columns = shape[-2:]
    return rows * columns * min(rows, columns)


@cache
def _linear_algebra() -> frozenset[Any]:
    """Return JAX's primitives of linear algebra."""
    module = jax.lax.linalg
    return frozenset(getattr(module, name) for name in dir(module) if name.endswith("_p"))
