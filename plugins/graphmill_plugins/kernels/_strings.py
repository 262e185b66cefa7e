"""Helpers for kernels over strings: object arrays of `bytes`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from graphmill import dtypes
from graphmill.errors import InvalidArgumentError
from graphmill.spi.kernels import cancellable
from graphmill_plugins.kernels._support import check_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from graphmill.spi import Value

T = TypeVar("T")
STRING = dtypes.string.as_numpy_dtype
_FEW: Final = 4096
"""The number of elements up to which work on strings is quick."""


def string_array(items: Sequence[bytes], shape: Sequence[int] | None = None) -> Any:
    """Return a string tensor of `items`, a vector unless a shape is given."""
    out: Any = np.fromiter(items, STRING, len(items))
    return out if shape is None else out.reshape(shape)


def check_text(value: Value, more: int = 0, what: str = "the joined text") -> None:
    """Check that the strings of a tensor fit in memory together, with `more` bytes.

    Raises:
        ResourceExhaustedError: they do not.
    """
    check_size((sum(map(len, value.ravel().tolist())) + more,), what)


def string_scalar(item: bytes) -> Any:
    """Return a string tensor of rank 0."""
    out = np.empty((), STRING)
    out[()] = item
    return out


def map_strings(function: Callable[[bytes], bytes], value: Value) -> Any:
    """Return the tensor of `function(element)` for each element."""
    return string_array(list(map(function, _elements(value))), value.shape)


def map_numbers(
    function: Callable[[bytes], Any], value: Value, dtype: np.dtype[Any] | type[Any]
) -> Any:
    """Return the numeric tensor of `function(element)` for each element."""
    items = map(function, _elements(value))
    return np.fromiter(items, dtype, value.size).reshape(value.shape)


def _elements(value: Value) -> Iterable[bytes]:
    """Return the elements of a tensor; an iteration over many ends when the step is cancelled."""
    items: list[bytes] = value.ravel().tolist()
    return items if len(items) <= _FEW else cancellable(items)


def map_distinct(function: Callable[[bytes], T], items: list[bytes]) -> Iterable[T]:
    """Return `function(item)` for each item, called once per distinct item if many repeat.

    Values in a batch often repeat; finding repeats costs far less than a regular expression.
    """
    return apply_to_distinct(partial(map, function), items)


def apply_to_distinct(
    function: Callable[[list[bytes]], Iterable[T]], items: list[bytes]
) -> Iterable[T]:
    """Return `function(items)`, called with the distinct items if many repeat."""
    distinct = set(items)
    if 2 * len(distinct) > len(items):
        return function(items)
    results = dict(zip(distinct, function(list(distinct)), strict=True))
    return map(results.__getitem__, items)


def decode(item: bytes) -> str:
    """Return UTF-8 bytes as `str`; invalid bytes survive a round trip."""
    return item.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    """Return the bytes of a text from `decode`."""
    return text.encode("utf-8", "surrogateescape")


def scalar_bytes(value: Value) -> bytes:
    """Return the element of a string scalar.

    Raises:
        InvalidArgumentError: it is not a scalar.
    """
    if value.ndim:
        raise InvalidArgumentError(f"expected a scalar string, got shape {list(value.shape)}")
    item: bytes = value.item()
    return item
