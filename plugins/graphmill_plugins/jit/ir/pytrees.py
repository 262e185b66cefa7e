"""Flatten and unflatten pytrees, without JAX for classes that plugins declare.

Inputs are flattened in each call, even before JAX is imported, because their structure is part of
the signature. So declared classes and Python's containers are flattened here. JAX is used only for
classes that a plugin registered directly with JAX.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graphmill.spi.compilers import pytree_of
from graphmill_plugins._jax import JAX, jax_module
from graphmill_plugins.jit.ir.errors import NotTraceable

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence


class TreeForm(NamedTuple):
    """The structure of a pytree; equal structures share a program.

    Attributes:
        kind: its class.
        fixed: its static values, the keys of a dict, or JAX's tree definition.
        parts: the form of each part; None for an array.
    """

    kind: type
    fixed: Hashable
    parts: tuple[TreeForm | None, ...]


class Flat(NamedTuple):
    """A flattened pytree.

    Attributes:
        form: its structure; None for an array.
        leaves: its arrays, in order.
    """

    form: TreeForm | None
    leaves: list[Any]

    @property
    def key(self) -> Hashable:
        """The part of a signature that identifies its structure, shapes and types."""
        return self.form, *((leaf.shape, leaf.dtype) for leaf in self.leaves)


def flatten(value: Any) -> Flat:
    """Flatten a pytree.

    Raises:
        NotTraceable: a leaf is not an array.
    """
    leaves: list[Any] = []
    return Flat(_form(value, leaves), leaves)


def unflatten(form: TreeForm | None, leaves: Sequence[Any]) -> Any:
    """Return the pytree with a structure and leaves."""
    return _built(form, iter(leaves))


def _form(value: Any, leaves: list[Any]) -> TreeForm | None:
    """Return the structure of a value; append its arrays to `leaves`."""
    if is_array(value):
        leaves.append(value)
        return None
    kind = type(value)
    declared = pytree_of(kind)
    if declared is not None:
        fixed, parts = _hashable(declared.fixed(value), kind), declared.parts(value)
    elif kind in (tuple, list) or (isinstance(value, tuple) and hasattr(kind, "_fields")):
        fixed, parts = (), tuple(value)
    elif kind is dict:
        keys = _sorted(value)
        fixed, parts = keys, tuple(value[key] for key in keys)
    else:
        return _form_by_jax(value, leaves)
    return TreeForm(kind, fixed, tuple([_form(part, leaves) for part in parts]))


def _form_by_jax(value: Any, leaves: list[Any]) -> TreeForm:
    """Return the structure of an object whose class may be registered with JAX."""
    kind = type(value)
    if not JAX.is_used or JAX.is_inherited:
        raise _no_array(kind)
    arrays, tree = jax_module().tree_util.tree_flatten(value)
    for leaf in arrays:
        if not is_array(leaf):
            raise _no_array(type(leaf))
    leaves += arrays
    return TreeForm(kind, tree, (None,) * len(arrays))


def _no_array(kind: type) -> NotTraceable:
    return NotTraceable(
        f"a variant holds {kind.__module__}.{kind.__qualname__}, which is neither an array nor a "
        "pytree; declare the class with @graphmill.spi.pytree"
    )


def _hashable(fixed: tuple[Any, ...], kind: type) -> tuple[Any, ...]:
    try:
        hash(fixed)
    except TypeError as error:
        raise NotTraceable(
            f"a static attribute of {kind.__qualname__} is not hashable: {error}"
        ) from error
    return fixed


def _sorted(value: dict[Any, Any]) -> tuple[Any, ...]:
    try:
        return tuple(sorted(value))
    except TypeError as error:
        raise NotTraceable(f"the keys of a dict cannot be sorted: {error}") from error


def _built(form: TreeForm | None, leaves: Iterator[Any]) -> Any:
    if form is None:
        return next(leaves)
    kind = form.kind
    parts = [_built(part, leaves) for part in form.parts]
    declared = pytree_of(kind)
    if declared is not None:
        fixed: Any = form.fixed
        return declared.build(fixed, parts)
    if kind in (tuple, list):
        return kind(parts)
    if kind is dict:
        keys: Any = form.fixed
        return dict(zip(keys, parts, strict=True))
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return kind(*parts)
    return jax_module().tree_util.tree_unflatten(form.fixed, parts)


def is_array(value: Any) -> bool:
    """Return whether a value is a numeric array of NumPy or JAX, or a tracer of one."""
    if isinstance(value, (np.ndarray, np.generic)):
        return not value.dtype.hasobject
    return JAX.is_used and not JAX.is_inherited and isinstance(value, jax_module().Array)
