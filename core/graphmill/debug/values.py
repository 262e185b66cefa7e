"""`ValueStore`: the values of a step, each stored once under the hash of its content."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill.debug.statistics import Statistics, is_finite, statistics_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from graphmill.dtypes import DType

MAX_VALUE_BYTES: Final = 1 << 20
"""The size up to which values are stored by default."""
MAX_TOTAL_BYTES: Final = 1 << 30
"""The maximum total size of the values that are stored by default."""
DEAD_VALUE: Final = -1
"""The index of a dead output."""
_MAX_SHOWN: Final = 12  # elements
_MAX_TEXT: Final = 120  # characters


@dataclass(slots=True)
class RecordedValue:
    """A value of a step.

    Attributes:
        dtype: name of its element type.
        shape: its shape.
        digest: SHA-256 of type, shape and elements, in hexadecimal; "" for a value that is not a
            tensor of plain elements, such as a handle.
        array: the elements; None if they were not stored or there are none.
        num_bytes: its size.
        text: what it is, if it is not a tensor of plain elements.
        is_reference: whether it is the value of a reference variable when it was passed on.
    """

    dtype: str
    shape: tuple[int, ...] = ()
    digest: str = ""
    array: NDArray[Any] | None = None
    num_bytes: int = 0
    text: str = ""
    is_reference: bool = False
    _statistics: Statistics | None = field(default=None, repr=False)

    @property
    def is_tensor(self) -> bool:
        """Whether it is a tensor of plain elements, so that it can be compared and stored."""
        return bool(self.digest)

    @property
    def statistics(self) -> Statistics | None:
        """The statistics of its elements; None if they are not numbers."""
        if self._statistics is None and self.array is not None:
            self._statistics = statistics_of(self.array)
        return self._statistics

    @property
    def is_finite(self) -> bool:
        """Whether no element is NaN or infinite."""
        if self._statistics is None and self.array is not None:
            return is_finite(self.array)
        return self._statistics is None or self._statistics.is_finite

    def __str__(self) -> str:
        kind = f"{self.dtype}{list(self.shape)}" + (" reference" if self.is_reference else "")
        if not self.is_tensor:
            return f"{kind} {self.text}".rstrip()
        if self.array is not None and self.array.size <= _MAX_SHOWN:
            return f"{kind} {_elements(self.array)}"
        more = "" if self.array is not None else " (not stored)"
        statistics = self.statistics
        return f"{kind}{more}" + (f" {statistics}" if statistics is not None else "")


class ValueStore:
    """Stores values by content, within bounds.

    Args:
        max_value_bytes: the size up to which a value is stored; of a larger one, only the hash and
            the statistics are.
        max_total_bytes: the size of all stored values.

    Attributes:
        values: the values; a recording refers to them by index.
        num_bytes: the size of the stored ones.
    """

    def __init__(
        self, max_value_bytes: int = MAX_VALUE_BYTES, max_total_bytes: int = MAX_TOTAL_BYTES
    ) -> None:
        self.values: list[RecordedValue] = []
        self.num_bytes = 0
        self._max_value_bytes = max_value_bytes
        self._max_total_bytes = max_total_bytes
        self._by_key: dict[tuple[str, bool], int] = {}
        self._by_id: dict[int, tuple[Any, int]] = {}  # holds the object, so its id is not reused

    def add(
        self, value: Any, dtype: DType, to_host: Callable[[Any], Any], *, is_needed: bool
    ) -> int:
        """Store a value; return its index.

        Args:
            value: the output of a node.
            dtype: its declared type.
            to_host: copies a value of the node's device to the host.
            is_needed: whether to store it whatever its size, because it cannot be recomputed.
        """
        same = self._by_id.get(id(value))
        if same is not None and not dtype.is_ref:
            return same[1]
        content = getattr(value, "value", None) if dtype.is_ref else value
        if dtype.kind == "h" or content is None:
            return self._append(RecordedValue(dtype.base_dtype.name, text=_description(content)))
        array = np.asarray(to_host(content))
        name, digest = dtype.base_dtype.name, digest_of(array)
        index = self._by_key.get((digest, dtype.is_ref))
        if index is None or (is_needed and self.values[index].array is None):
            index = self._store(
                array, name, digest, index, is_ref=dtype.is_ref, is_needed=is_needed
            )
        if self.values[index].array is value:
            self._by_id[id(value)] = value, index
        return index

    def _store(
        self,
        array: NDArray[Any],
        name: str,
        digest: str,
        index: int | None,
        *,
        is_ref: bool,
        is_needed: bool,
    ) -> int:
        size = num_bytes_of(array)
        fits = size <= self._max_value_bytes and self.num_bytes + size <= self._max_total_bytes
        stored = None
        if fits or is_needed:
            # A view may be of memory that the program writes to, such as that of a fed array.
            stored = array if array.base is None and array.flags.owndata else array.copy()
            self.num_bytes += size
        value = RecordedValue(name, array.shape, digest, stored, size, is_reference=is_ref)
        if stored is None:
            value._statistics = statistics_of(array)  # noqa: SLF001
        if index is not None:
            self.values[index] = value
            return index
        index = self._append(value)
        self._by_key[digest, is_ref] = index
        return index

    def _append(self, value: RecordedValue) -> int:
        self.values.append(value)
        return len(self.values) - 1


def digest_of(array: NDArray[Any]) -> str:
    """Return the SHA-256 of type, shape and elements of an array, in hexadecimal."""
    found = hashlib.sha256(f"{array.dtype.str}{array.dtype.name}{array.shape}".encode())
    found.update(content_of(array))
    return found.hexdigest()


def content_of(array: NDArray[Any]) -> bytes | memoryview:
    """Return the elements of an array in row-major order, as they are stored and hashed.

    A string is its length, in eight bytes, and its bytes; numbers are little-endian.
    """
    if array.dtype.kind in "OSU":
        texts = [_as_bytes(text) for text in array.reshape(-1)]
        return b"".join(struct.pack("<Q", len(text)) + text for text in texts)
    little = array.astype(array.dtype.newbyteorder("<")) if array.dtype.byteorder == ">" else array
    return memoryview(np.ascontiguousarray(little).reshape(-1).view(np.uint8))


def num_bytes_of(array: NDArray[Any]) -> int:
    """Return the size of the elements of an array."""
    if array.dtype.kind == "O":
        return sum(len(_as_bytes(text)) for text in array.reshape(-1))
    return int(array.nbytes)


def _as_bytes(text: Any) -> bytes:
    return text if isinstance(text, bytes) else str(text).encode("utf-8", "surrogateescape")


def _elements(array: NDArray[Any]) -> str:
    text = str(array.tolist())
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 3]}..."


def _description(value: Any) -> str:
    if value is None:
        return "without a value"
    name = getattr(value, "name", "")
    return f"{type(value).__name__}" + (f" '{name}'" if isinstance(name, str) and name else "")
