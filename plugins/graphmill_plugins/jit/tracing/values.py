"""The values and the state of a trace, and how branches and iterations unify them.

The functions of a `While` or `If` are Python functions of traced values:

    function(values, state) -> (values, state)

Values are JAX arrays and tracers, static NumPy arrays, structures of arrays (`Elements` of tensor
arrays, stacks and lists), pytrees of plugins, and handles, which no computation changes. The state
holds what is read and written by key or handle: variables, tensor arrays and stacks.

Callers must enable JAX's 64-bit mode.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.ir.errors import NotTraceable
from graphmill_plugins.jit.ir.pytrees import is_array
from graphmill_plugins.jit.tracing.elements import Elements
from graphmill_plugins.jit.tracing.pytrees import is_pytree, leaves_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    State: TypeAlias = "dict[Hashable, Any]"
    Function: TypeAlias = "Callable[[list[Any], State], tuple[list[Any], State]]"


@dataclass(frozen=True, slots=True)
class Absent:
    """Placeholder for a result that only the other branch has; it is never read."""


def is_array_value(value: Any) -> bool:
    """Return whether a program can compute a value: an array, or a structure of arrays."""
    if isinstance(value, (np.ndarray, np.generic)):
        return not value.dtype.hasobject
    if isinstance(value, (Elements, jax_module().Array)):
        return True
    return is_pytree(value) and all(map(is_array, leaves_of(value)))


def is_shape(value: Any) -> bool:
    """Return whether a value has a shape and dtype, or consists of leaves that have."""
    if isinstance(value, Elements):
        return True
    if is_pytree(value):
        return all(map(_is_leaf_shape, leaves_of(value)))
    return _is_leaf_shape(value)


def _is_leaf_shape(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)  # handles of arrays and stacks have one, but no shape
    return isinstance(dtype, np.dtype) and not dtype.hasobject and hasattr(value, "shape")


def form_of_both(first: Any, second: Any, subject: str) -> Any:
    """Return the one of two values that determines the shape of both.

    Args:
        first, second: the values.
        subject: subject and verb of the message.

    Raises:
        NotTraceable: they are incompatible.
    """
    first_leaves: list[Any] = [first]
    second_leaves: list[Any] = [second]
    if isinstance(first, Elements) and isinstance(second, Elements):
        first, second = first.with_flag_of(second), second.with_flag_of(first)
        if first.data is None or second.data is None:
            return first if second.data is None else second
        first_leaves, second_leaves = first.leaves(), second.leaves()
    elif isinstance(first, Elements) or isinstance(second, Elements):
        raise NotTraceable(f"{subject} a list and another kind of value")
    elif not (is_shape(first) and is_shape(second)):
        if first is second:
            return first
        raise NotTraceable(f"{subject} different handles")
    elif is_pytree(first) or is_pytree(second):
        _check_same_form(first, second, subject)
        first_leaves, second_leaves = leaves_of(first), leaves_of(second)
    if len(first_leaves) != len(second_leaves):
        raise NotTraceable(f"{subject} growing lists and lists of fixed length")
    for one, other in zip(first_leaves, second_leaves, strict=True):
        if np.shape(one) != np.shape(other) or one.dtype != other.dtype:
            raise NotTraceable(
                f"{subject} shapes {np.shape(one)} and {np.shape(other)} "
                f"({one.dtype.name}, {other.dtype.name})"
            )
    if isinstance(first, Elements) and first.constant != second.constant:
        return replace(first, constant=None)
    return first


def _check_same_form(first: Any, second: Any, subject: str) -> None:
    structure = jax_module().tree_util.tree_structure
    one, other = structure(first), structure(second)
    if one != other:
        raise NotTraceable(f"{subject} different structures: {one} and {other}")


def fitted(value: Any, spec: Any) -> Any:
    """Return a value with the dtype and form of `spec`; zeros if it is absent."""
    numpy = jax_module().numpy
    if isinstance(value, Absent):
        return jax_module().tree_util.tree_map(lambda s: numpy.zeros(s.shape, s.dtype), spec)
    if isinstance(value, Elements):
        return value.like(spec)
    if is_pytree(value):
        return jax_module().tree_util.tree_map(lambda v, s: numpy.asarray(v, s.dtype), value, spec)
    return numpy.asarray(value, spec.dtype)


def run_traced(program: Any, *args: Any) -> list[Any]:
    """Run a traced program inside another trace."""
    core = importlib.import_module("jax.extend.core")
    outputs: list[Any] = core.jaxpr_as_fun(program)(*args)
    return outputs
