"""Nested structures of tensors: lists, tuples, named tuples, dicts and dataclasses.

Any other value is a leaf. The leaves of a dict are ordered by its sorted keys, those of a dataclass
by its fields. Semantics: tensorflow/python/util/nest.py.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import TYPE_CHECKING, Any

from graphmill.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Part = tuple[str, Any]
    """A part of a structure: its Python accessor (`[0]`, `['a']`, `.b`) and its value."""


def is_structure(value: Any) -> bool:
    """Return whether a value is a structure, not a leaf."""
    return isinstance(value, (list, tuple, dict)) or _is_dataclass(value)


def flatten(structure: Any) -> list[Any]:
    """Return the leaves.

    Raises:
        InvalidArgumentError: the keys of a dict cannot be sorted.
    """
    return [leaf for _, leaf in flatten_with_paths(structure)]


def flatten_with_paths(structure: Any, path: str = "") -> list[tuple[str, Any]]:
    """Return the leaves, each with the Python expression for it that begins with `path`.

    Raises:
        InvalidArgumentError: the keys of a dict cannot be sorted.
    """
    if not is_structure(structure):
        return [(path, structure)]
    return [
        leaf
        for step, part in _parts(structure, path)
        for leaf in flatten_with_paths(part, path + step)
    ]


def pack(structure: Any, leaves: Iterable[Any]) -> Any:
    """Return a structure like `structure` with new leaves, in the order of `flatten`."""
    return _pack(structure, iter(leaves))


def map_leaves(function: Callable[[Any], Any], structure: Any) -> Any:
    """Return a structure like `structure` with `function` applied to each leaf."""
    return pack(structure, [function(leaf) for leaf in flatten(structure)])


def check_same(expected: Any, actual: Any, path: str, expected_path: str) -> None:
    """Check that two structures differ only in their leaves.

    Args:
        expected: the expected structure.
        actual: the structure to check.
        path: the name of `actual` in messages.
        expected_path: the name of `expected` in messages.

    Raises:
        InvalidArgumentError: they differ; the message describes the first difference.
    """
    if _kind(expected) is not _kind(actual) or _steps(expected, path) != _steps(actual, path):
        raise InvalidArgumentError(
            f"{path} is {_describe(actual)}, but {expected_path} is {_describe(expected)}; both "
            "must have the same structure"
        )
    if is_structure(expected):
        pairs = zip(_parts(expected, path), _parts(actual, path), strict=True)
        for (step, expected_part), (_, part) in pairs:
            check_same(expected_part, part, path + step, expected_path + step)


def _pack(structure: Any, leaves: Iterator[Any]) -> Any:
    if not is_structure(structure):
        return next(leaves)
    parts = [_pack(part, leaves) for _, part in _parts(structure, "")]
    if isinstance(structure, dict):
        changed = copy.copy(structure)  # keeps the order of the keys, and a default factory
        changed.update(zip(_sorted_keys(structure, ""), parts, strict=True))
        return changed
    if _is_dataclass(structure):
        return _with_fields(structure, parts)
    if hasattr(structure, "_fields"):
        return type(structure)(*parts)
    return type(structure)(parts)


def _with_fields(instance: Any, values: list[Any]) -> Any:
    # Not `replace`, which would run __post_init__ and refuses fields that __init__ does not take.
    changed = copy.copy(instance)
    for field, value in zip(dataclasses.fields(instance), values, strict=True):
        object.__setattr__(changed, field.name, value)
    return changed


def _parts(structure: Any, path: str) -> list[Part]:
    if isinstance(structure, dict):
        return [(f"[{key!r}]", structure[key]) for key in _sorted_keys(structure, path)]
    if _is_dataclass(structure):
        names = [field.name for field in dataclasses.fields(structure)]
    elif hasattr(structure, "_fields"):
        names = list(structure._fields)
    else:
        return [(f"[{index}]", part) for index, part in enumerate(structure)]
    return [(f".{name}", getattr(structure, name)) for name in names]


def _sorted_keys(structure: dict[Any, Any], path: str) -> list[Any]:
    try:
        return sorted(structure)
    except TypeError:
        where = f" {path}" if path else ""
        raise InvalidArgumentError(
            f"the keys of dict{where} cannot be sorted: {list(structure)!r}; use keys of one type"
        ) from None


def _steps(structure: Any, path: str) -> list[str]:
    return [step for step, _ in _parts(structure, path)] if is_structure(structure) else []


def _kind(structure: Any) -> type | None:
    """Return the type that two structures must share; None for a leaf."""
    if not is_structure(structure):
        return None
    return dict if isinstance(structure, dict) else type(structure)


def _describe(structure: Any) -> str:
    if isinstance(structure, dict):
        return f"a {type(structure).__name__} with keys {list(structure)!r}"
    if isinstance(structure, (list, tuple)):
        return f"a {type(structure).__name__} of {len(structure)}"
    if _is_dataclass(structure):
        return f"a {type(structure).__name__}"
    return f"a single value ({type(structure).__name__})"


def _is_dataclass(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)
