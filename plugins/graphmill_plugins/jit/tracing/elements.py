"""`Elements`: the elements of a list, tensor array or stack as one array during tracing."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

import numpy as np

from graphmill.spi.kernels import request_memory
from graphmill_plugins._jax import jax_module
from graphmill_plugins.jit.ir.errors import NotTraceable, ShapesChange
from graphmill_plugins.jit.tracing.static_values import GUARD, guard, is_outside, is_static

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

_MAX_CONSTANT_BYTES = 256  # bytes


class Constant(NamedTuple):
    """A static array in a comparable form."""

    octets: bytes
    shape: tuple[int, ...]
    dtype: str

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return the array."""
        return np.frombuffer(self.octets, self.dtype).reshape(self.shape)

    @classmethod
    def of(cls, value: Any) -> Constant | None:
        """Return the comparable form of a value; None if it is traced or large."""
        if not is_static(value) or value.nbytes > _MAX_CONSTANT_BYTES or value.dtype.hasobject:
            return None
        return cls(value.tobytes(), tuple(value.shape), value.dtype.str)


@dataclass(frozen=True, slots=True)
class Elements:
    """Elements of one shape, stacked along the first axis.

    Attributes:
        dtype: their dtype.
        data: the array; None until the elements' shape is static.
        length: the number of elements, at most `size`; None if it is fixed at `size`.
        size: the capacity; -1 if it is unknown.
        may_grow: whether elements are added at the end.
        is_bounded: whether `size` is a bound that the graph sets.
        declared: the shape that elements must have, -1 for any size; None for any shape.
        constant: the static value that all pushed elements have, such as a shape that the gradient
            of a loop reads; None if they have none in common.
        is_any_set: a traced or static bool: whether any element was set, without which their shape
            is unknown; None if that does not matter.
    """

    dtype: np.dtype[Any]
    data: Any
    length: Any
    size: int
    may_grow: bool = False
    is_bounded: bool = False
    declared: tuple[int, ...] | None = None
    constant: Constant | None = None
    is_any_set: Any = None

    def __post_init__(self) -> None:
        """Register the class with JAX, once."""
        _register()

    def leaves(self) -> list[Any]:
        """Return its arrays, without `is_any_set`, which `with_flag_of` adjusts."""
        return [leaf for leaf in (self.data, self.length) if leaf is not None]

    def like(self, other: Elements) -> Elements:
        """Return the same elements, or zeros of the other's shape if there are none.

        If `other` has elements, the constant of the result is that of `other` or None. Zeros have
        at least the capacity of `other`, which inner loops may have increased.
        """
        own = self.with_flag_of(other)
        if other.data is None:
            return own
        if own.data is None:
            empty = replace(own, size=max(own.size, other.size))
            return replace(empty.filled(other.data.shape[1:]), constant=other.constant)
        return own if own.constant == other.constant else replace(own, constant=None)

    def with_flag_of(self, other: Elements) -> Elements:
        """Return these elements with `is_any_set` if one of both has it."""
        has_flag = self.is_any_set is not None or other.is_any_set is None
        return self if has_flag else replace(self, is_any_set=np.True_)

    def filled(self, shape: tuple[int, ...]) -> Elements:
        """Return elements that are zeros of a shape.

        Raises:
            NotTraceable: the capacity is unknown.
            ResourceExhaustedError: they are larger than the session's memory budget.
        """
        if self.size < 0:
            raise NotTraceable("a stack or list grows without a static bound")
        count = math.prod((self.size, *shape))
        request_memory(count * self.dtype.itemsize, f"a stack or list has {count} elements")
        zeros = jax_module().numpy.zeros((self.size, *shape), self.dtype)
        return replace(self, data=zeros)

    def reserved(self, count: int) -> Elements:
        """Return an empty stack with `count` times the capacity."""
        if self.is_bounded:
            return self
        return replace(self, size=count * max(self.size, 1))

    def growing(self, more: int) -> Elements:
        """Return elements of a fixed length as elements that may grow by `more`."""
        data = self.data
        if data is not None:
            numpy = jax_module().numpy
            data = numpy.concatenate([data, numpy.zeros((more, *data.shape[1:]), self.dtype)])
        return replace(
            self, data=data, length=np.int32(self.size), size=self.size + more, may_grow=True
        )

    def first(self, count: int) -> Any:
        """Return the first elements, stacked."""
        if self.data is None:
            raise NotTraceable("elements are read before any is written")
        return self.data if count == self.data.shape[0] else self.data[:count]

    def mapped(self, function: Callable[[Any], Any]) -> Elements:
        """Return the elements with a function applied to their stacked values, if any."""
        if self.data is None:
            return self
        return replace(self, data=function(self.data), constant=None)

    def with_element(self, index: Any, value: Any, *, add: bool = False) -> Elements:
        """Return the elements with one set, or added to."""
        self.check(value.dtype, np.shape(value))
        elements = self if self.data is not None else self.filled(np.shape(value))
        self.check_shape(elements, np.shape(value))
        lax = jax_module().lax
        value = jax_module().numpy.asarray(value, self.dtype)
        if add:
            value = value + elements.element(index)
        data = lax.dynamic_update_index_in_dim(elements.data, value, index, 0)
        return elements.with_data(data)

    def element(self, index: Any) -> Any:
        """Return one element.

        Raises:
            NotTraceable: no element was written, so the shape is unknown.
        """
        if self.data is None:
            raise NotTraceable("an element is read before any is written")
        lax = jax_module().lax
        return lax.dynamic_index_in_dim(self.data, index, 0, keepdims=False)

    def gathered(self, indices: Any) -> Any:
        """Return several elements, stacked."""
        if self.data is None:
            raise NotTraceable("elements are read before any is written")
        if is_all(indices, self.size):
            return self.data
        return jax_module().numpy.take(self.data, indices, axis=0, mode="clip")

    def with_rows(self, indices: Any, rows: Any, *, add: bool = False) -> Elements:
        """Return the elements with some set to, or increased by, the rows of an array."""
        numpy = jax_module().numpy
        self.check(rows.dtype, rows.shape[1:])
        if rows.shape[:1] != np.shape(indices):
            raise NotTraceable(f"{np.shape(indices)} indices do not fit rows {rows.shape}")
        rows = numpy.asarray(rows, self.dtype)
        elements = self if self.data is not None else self.filled(rows.shape[1:])
        self.check_shape(elements, rows.shape[1:])
        if is_all(indices, self.size):
            return elements.with_data(elements.data + rows if add else rows)
        target = elements.data.at[indices]
        return elements.with_data(target.add(rows) if add else target.set(rows))

    def with_data(self, data: Any) -> Elements:
        """Return the elements after some have been set, with their new array."""
        is_any_set = None if self.is_any_set is None else np.True_
        return replace(self, data=data, constant=None, is_any_set=is_any_set)

    def pushed(self, value: Any) -> Elements:
        """Return the elements with one more at the end."""
        constant = Constant.of(value)
        if self.data is not None and self.constant != constant:
            constant = None
        if self.size < 0 and isinstance(self.length, np.integer):
            longer = self._longer(value)
        elif self.size < 0 and self.data is not None:
            raise ShapesChange("a non-empty list grows in a loop")
        else:
            elements = self if self.data is not None else self.filled(np.shape(value))
            longer = elements.with_element(self.length, value)
        return replace(longer, length=self.length + np.int32(1), constant=constant)

    def popped(self) -> tuple[Any, Elements]:
        """Return the last element and the others."""
        last = self.length - np.int32(1)
        value = self.element(last) if self.constant is None else self.constant.numpy()
        return value, replace(self, length=last)

    def _longer(self, value: Any) -> Elements:
        """Return the elements with one appended, outside of loops."""
        numpy = jax_module().numpy
        self.check(value.dtype, np.shape(value))
        row = numpy.asarray(value, self.dtype)[None]
        if self.data is not None:
            self.check_shape(self, row.shape[1:])
            row = numpy.concatenate([self.data[: int(self.length)], row])
        return replace(self, data=row)

    def check_set(self, state: dict[Hashable, Any], shape: tuple[int, ...] | None) -> None:
        """Add to the guard that an element was set, unless the shape of a read is known.

        Args:
            state: the state.
            shape: what the read declares, -1 for any size; None for any shape.
        """
        if self.is_any_set is not None and not is_fully_defined(shape) and GUARD in state:
            state[GUARD] = state[GUARD] & self.is_any_set

    def check(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        """Check that a value can be an element; the interpreter reports it if not.

        Raises:
            NotTraceable: its dtype or its shape does not match.
        """
        if dtype != self.dtype:
            raise NotTraceable(f"an element has dtype {dtype}, expected {self.dtype}")
        if not _fit(shape, self.declared):
            raise NotTraceable(f"an element has shape {shape}, expected {self.declared}")

    def check_declared(self, shape: tuple[int, ...] | None) -> None:
        """Check that the elements are compatible with a declared shape, -1 for any size.

        Raises:
            NotTraceable: they are not.
        """
        if not _fit(shape, self.declared) or (
            self.data is not None and not _fit(shape, tuple(self.data.shape[1:]))
        ):
            raise NotTraceable(f"elements cannot have the shape {shape}")

    @staticmethod
    def check_shape(elements: Elements, shape: tuple[int, ...]) -> None:
        """Check that an element has the shape of the others.

        Raises:
            NotTraceable: it has another shape.
        """
        if tuple(elements.data.shape[1:]) != tuple(shape):
            raise NotTraceable(
                f"elements have shapes {tuple(elements.data.shape[1:])} and {tuple(shape)}"
            )


@dataclass(frozen=True, slots=True)
class FirstRows:
    """The first rows of an array, with a dynamic count; only a program's outputs can be this.

    Attributes:
        data: the array.
        count: the number of rows.
    """

    data: Any
    count: Any

    @classmethod
    def of(
        cls, elements: Elements, state: dict[Hashable, Any], *shapes: tuple[int, ...] | None
    ) -> FirstRows:
        """Return all elements, stacked; if there are none, their shape must be static.

        Raises:
            NotTraceable: no element was written, so the shape is unknown.
        """
        if elements.data is None:
            raise NotTraceable("elements are read before any is written")
        if GUARD in state and not any(map(is_fully_defined, shapes)):
            state[GUARD] = state[GUARD] & (elements.length > 0)
        return cls(elements.data, elements.length)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Their element type."""
        dtype: np.dtype[Any] = self.data.dtype
        return dtype


def _fit(one: tuple[int, ...] | None, other: tuple[int, ...] | None) -> bool:
    """Return whether two partly known shapes are compatible."""
    if one is None or other is None:
        return True
    return len(one) == len(other) and all(
        a == b or -1 in (a, b) for a, b in zip(one, other, strict=True)
    )


def is_fully_defined(shape: tuple[int, ...] | None) -> TypeGuard[tuple[int, ...]]:
    """Return whether a declared shape has a size for each axis."""
    return shape is not None and -1 not in shape


def static_shape(value: Any) -> tuple[int, ...] | None:
    """Return the static shape in a tensor, -1 for any size; None if there is none.

    Raises:
        NotTraceable: its value is not a shape.
    """
    if not is_static(value):
        return None
    sizes = np.asarray(value)
    if sizes.ndim > 1 or (not sizes.ndim and sizes != -1) or np.any(sizes < -1):
        raise NotTraceable(f"{sizes.tolist()} is not a shape of elements")
    return tuple(map(int, sizes.tolist())) if sizes.ndim else None


def is_gradient_of_entry(key: Hashable, state: Mapping[Hashable, Any]) -> bool:
    """Return whether a state key belongs to the gradients of another entry of the state."""
    forward = getattr(key, "forward", None)
    return forward is not None and (forward in state or is_gradient_of_entry(forward, state))


def set_and_grown(
    state: dict[Hashable, Any], elements: Elements, index: Any, value: Any
) -> Elements:
    """Return the elements with one set, or with one appended.

    The capacity grows by one if necessary; a loop increases it by its number of iterations.
    """
    if elements.length is None:
        if is_static(index) and not is_outside(index, elements.size):
            return elements.with_element(index, value)
        if is_static(index) and int(index) == elements.size:
            longer = elements.growing(1).with_element(index, value)
            return replace(longer, length=None, may_grow=elements.may_grow)
        elements = elements.growing(1)
    if is_outside(index, elements.size):
        raise NotTraceable("an element is set far beyond the end of the list")
    guard(state, index, elements.size)
    guard(state, index, elements.length + np.int32(1))  # an index beyond the end would leave a gap
    numpy = jax_module().numpy
    length = numpy.maximum(elements.length, index + np.int32(1)).astype(np.int32)
    return replace(elements.with_element(index, value), length=length)


def is_all(indices: Any, size: int) -> bool:
    """Return whether static indices are those of all elements, in order."""
    is_static = isinstance(indices, np.ndarray)
    return is_static and indices.size == size and bool((indices == np.arange(size)).all())


@cache
def _register() -> None:
    def flatten(value: Elements) -> tuple[tuple[Any, Any, Any], Any]:
        return (value.data, value.length, value.is_any_set), (
            value.dtype,
            value.size,
            value.may_grow,
            value.is_bounded,
            value.declared,
            value.constant,
        )

    def unflatten(fixed: Any, leaves: tuple[Any, Any, Any]) -> Elements:
        dtype, *others = fixed
        data, length, is_any_set = leaves
        arguments: list[Any] = [dtype, data, length, *others, is_any_set]
        return Elements(*arguments)

    jax_module().tree_util.register_pytree_node(Elements, flatten, unflatten)
