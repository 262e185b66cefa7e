"""`numpy_form`: compute a traced program with NumPy, operation by operation.

What runs once is not worth compiling: XLA takes one to two milliseconds for an operation that NumPy
computes in microseconds. The operations here are those that NumPy computes as XLA does, up to the
last bits; a program with any other one has no such form.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from jax.extend import core

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_FLOATS: Final = ("float32", "float64")


def numpy_form(closed: core.ClosedJaxpr) -> Callable[..., list[Any]] | None:
    """Return a function of arrays that computes a program with NumPy; None if there is none."""
    if not all(map(_has_form, closed.jaxpr.eqns)):
        return None

    def compute(*arguments: Any) -> list[Any]:
        with np.errstate(all="ignore"):  # XLA's arithmetic does not warn either
            return _computed(closed, arguments)

    return compute


def _computed(closed: core.ClosedJaxpr, arguments: Sequence[Any]) -> list[Any]:
    jaxpr = closed.jaxpr
    values: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    values.update(zip(jaxpr.invars, arguments, strict=True))
    for eqn in jaxpr.eqns:
        (result,) = eqn.outvars
        inputs = [_value_of(atom, values) for atom in eqn.invars]
        computed = _FORMS[eqn.primitive.name](eqn.params, *inputs)
        values[result] = np.asarray(computed, result.aval.dtype)
    return [_value_of(atom, values) for atom in jaxpr.outvars]


def _value_of(atom: Any, values: Mapping[Any, Any]) -> Any:
    return np.asarray(atom.val if isinstance(atom, core.Literal) else values[atom], atom.aval.dtype)


def _has_form(eqn: core.JaxprEqn) -> bool:
    """Return whether NumPy computes an operation on these types as XLA does."""
    name = eqn.primitive.name
    if name not in _FORMS or len(eqn.outvars) != 1:
        return False
    if name in _OF_ALL_TYPES:
        return True
    operands = [*eqn.invars, *eqn.outvars]
    if any(atom.aval.dtype.name not in _FLOATS for atom in operands):
        return False
    return name != "convert_element_type" or eqn.params.get("sharding") is None


def _broadcast(params: Mapping[str, Any], value: Any) -> Any:
    shape = [1] * len(params["shape"])
    for axis, size in zip(params["broadcast_dimensions"], value.shape, strict=True):
        shape[axis] = size
    return np.broadcast_to(value.reshape(shape), params["shape"])


def _product(params: Mapping[str, Any], left: Any, right: Any) -> Any:
    """Compute a product of matrices, with an axis for each kind of axis of the operands."""
    (left_sums, right_sums), (left_batch, right_batch) = params["dimension_numbers"]
    left_free = [axis for axis in range(left.ndim) if axis not in {*left_sums, *left_batch}]
    right_free = [axis for axis in range(right.ndim) if axis not in {*right_sums, *right_batch}]
    batch = [left.shape[axis] for axis in left_batch]
    rows = [left.shape[axis] for axis in left_free]
    columns = [right.shape[axis] for axis in right_free]
    sums = math.prod(left.shape[axis] for axis in left_sums)
    left = left.transpose([*left_batch, *left_free, *left_sums])
    right = right.transpose([*right_batch, *right_sums, *right_free])
    size = math.prod(batch)
    product = np.matmul(
        left.reshape(size, math.prod(rows), sums), right.reshape(size, sums, math.prod(columns))
    )
    return product.reshape(*batch, *rows, *columns)


_OF_ALL_TYPES: Final[dict[str, Callable[..., Any]]] = {
    "broadcast_in_dim": _broadcast,
    "optimization_barrier": lambda _, value: value,
    "reshape": lambda params, value: value.reshape(params["new_sizes"]),
    "squeeze": lambda params, value: value.squeeze(tuple(params["dimensions"])),
    "transpose": lambda params, value: value.transpose(params["permutation"]),
}
_FORMS: Final = _OF_ALL_TYPES | {
    "add": lambda _, left, right: left + right,
    "convert_element_type": lambda params, value: value.astype(params["new_dtype"]),
    "div": lambda _, left, right: left / right,
    "dot_general": _product,
    "mul": lambda _, left, right: left * right,
    "neg": lambda _, value: -value,
    "rsqrt": lambda _, value: 1 / np.sqrt(value),
    "sqrt": lambda _, value: np.sqrt(value),
    "sub": lambda _, left, right: left - right,
}
