"""Create kernels from tables of functions of the array namespace or of SciPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes
from graphmill.spi import KernelDef, KernelTable
from graphmill_plugins.kernels._support import in_float32

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from graphmill.spi import ArrayNamespace, Value


def named(function: Callable[..., Any], op: str, module: str) -> Callable[..., Any]:
    """Name a generated function after its op, so that messages name the op."""
    function.__name__ = function.__qualname__ = op
    function.__module__ = module
    return function


def _types(allowed: Iterable[dtypes.DType] | None) -> dict[str, tuple[dtypes.DType, ...]]:
    return {} if allowed is None else {"T": tuple(allowed)}


def namespace_functions(
    module: str,
    rows: Mapping[str, str | tuple[str, Callable[..., Any]]],
    *,
    types: Iterable[dtypes.DType] | None = None,
) -> KernelTable:
    """Create kernels from functions of the namespace: `{"Exp": "exp"}`.

    With `("add", operator.add)` NumPy values are computed by the operator, which takes a tenth of a
    ufunc's time on NumPy scalars and the same on arrays. `module` is the caller's `__name__`.
    """
    table = KernelTable()
    for op, row in rows.items():
        name, quick = row if isinstance(row, tuple) else (row, None)
        make = named(_namespace_function(name, quick), op, module)
        table.append(KernelDef(ops=(op,), function=make, types=_types(types), make=True))
    return table


def _namespace_function(
    name: str, quick: Callable[..., Any] | None
) -> Callable[[ArrayNamespace], Callable[..., Value]]:
    def make(xp: ArrayNamespace) -> Callable[..., Value]:
        if quick is not None and xp is np:
            return quick
        function: Callable[..., Value] = getattr(xp, name)
        return function

    return make


def functions_in_float32(
    module: str,
    functions: Mapping[str, Callable[[], Callable[..., Value]]],
    *,
    backend: str,
    types: Iterable[dtypes.DType] = dtypes.FLOATING,
) -> KernelTable:
    """Create kernels of one backend from functions of float32 and float64 arrays.

    `functions` maps an op to a maker that imports and returns the function when a node is bound;
    narrower floats are computed in float32.
    """
    table = KernelTable()
    for op, get in functions.items():
        make = named(_float_function(get), op, module)
        table.append(
            KernelDef(ops=(op,), function=make, backend=backend, types=_types(types), make=True)
        )
    return table


def _float_function(
    get: Callable[[], Callable[..., Value]],
) -> Callable[[ArrayNamespace, np.dtype[Any]], Callable[..., Value]]:
    def make(_xp: ArrayNamespace, T: np.dtype[Any]) -> Callable[..., Value]:
        return in_float32(T, get())

    return make
