"""Pytrees: composite values that a compiler may split into arrays.

An object in a variant is opaque to a compiler, unless its class declares which of its attributes
are arrays. Such a class is what JAX calls a pytree:

    @pytree(static=("unit",))
    @dataclass(frozen=True)
    class Interval:
        low: Any
        high: Any
        unit: str

    @kernel("Mine>Interval", pytrees=Interval)
    def interval(xp, low, high, unit):
        return Interval(low, high, unit)

The declaration imports nothing. A compiler registers the class with its framework when it first
traces; a class that its plugin has registered with JAX itself needs no declaration.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from weakref import WeakSet

from graphmill.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_ATTRIBUTE = "__graphmill_pytree__"
_Class = TypeVar("_Class", bound=type)
_declared: WeakSet[type] = WeakSet()


class PytreeDef(NamedTuple):
    """The attributes of a class, as a compiler sees them.

    Attributes:
        kind: the class.
        arrays: names of the attributes that are arrays, or pytrees themselves.
        static: names of the other attributes; each combination of their values is compiled.
    """

    kind: type
    arrays: tuple[str, ...]
    static: tuple[str, ...]

    def parts(self, value: Any) -> tuple[Any, ...]:
        """Return the values of the attributes that are arrays."""
        return tuple(getattr(value, name) for name in self.arrays)

    def fixed(self, value: Any) -> tuple[Any, ...]:
        """Return the values of the static attributes."""
        return tuple(getattr(value, name) for name in self.static)

    def build(self, fixed: Sequence[Any], parts: Sequence[Any]) -> Any:
        """Return an object with these values, without calling `__init__`.

        Compilers pass other objects, such as traced values, instead of arrays.
        """
        instance: Any = object.__new__(self.kind)
        for name, value in zip((*self.arrays, *self.static), (*parts, *fixed), strict=True):
            object.__setattr__(instance, name, value)
        return instance


def pytree(*, arrays: Iterable[str] = (), static: Iterable[str] = ()) -> Callable[[_Class], _Class]:
    """Declare the attributes of the decorated class, so that compilers can trace its objects.

    Objects must be immutable, because several nodes may read one. They are rebuilt from their
    attributes without a call of `__init__`.

    Args:
        arrays: attributes that are arrays, or pytrees themselves (also tuples, lists and dicts of
            them); by default all fields of a dataclass that are not static.
        static: attributes with other values, which can be hashed and compared. A program is
            compiled for each combination of these.

    Raises:
        InvalidArgumentError: no attribute is named, one is named twice, or the class is a tuple,
            list or dict.
    """
    named, fixed = tuple(arrays), tuple(static)

    def declare(kind: _Class) -> _Class:
        arrays_found = named
        if not arrays_found and dataclasses.is_dataclass(kind):
            arrays_found = tuple(f.name for f in dataclasses.fields(kind) if f.name not in fixed)
        _check(kind, arrays_found, fixed)
        setattr(kind, _ATTRIBUTE, PytreeDef(kind, arrays_found, fixed))
        _declared.add(kind)
        return kind

    return declare


def _check(kind: type, arrays: tuple[str, ...], static: tuple[str, ...]) -> None:
    if not arrays and not static:
        raise InvalidArgumentError(
            f"@pytree needs the names of the attributes of {kind.__qualname__}, which is not a "
            "dataclass: arrays=(...) and static=(...)"
        )
    if len({*arrays, *static}) < len(arrays) + len(static):
        raise InvalidArgumentError(f"@pytree names an attribute of {kind.__qualname__} twice")
    if issubclass(kind, (tuple, list, dict)):
        raise InvalidArgumentError(
            f"@pytree is not for {kind.__qualname__}: tuples, lists and dicts, named tuples among "
            "them, are pytrees already"
        )


def pytree_of(kind: type) -> PytreeDef | None:
    """Return the declaration of a class, or None; subclasses do not inherit it."""
    definition: PytreeDef | None = kind.__dict__.get(_ATTRIBUTE)
    return definition


def declared_pytrees() -> list[PytreeDef]:
    """Return the declarations of all live classes."""
    return [declared for kind in list(_declared) if (declared := pytree_of(kind)) is not None]
