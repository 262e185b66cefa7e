"""Lookup tables: the resources of the lookup kernels.

Semantics: tensorflow/core/kernels/lookup_table_op.h, initializable_lookup_table.cc. Keys are Python
scalars (bytes or integers), values NumPy arrays of the table's value shape.
"""

from __future__ import annotations

import math
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from graphmill import dtypes, errors
from graphmill.spi.kernels import cancellable
from graphmill.spi.process import fork_safe_lock
from graphmill_plugins.kernels._support import check_size
from graphmill_plugins.kernels.lookup._integer_index import IntegerIndex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from graphmill.spi import Value

_BLOCK: Final = 1 << 16
"""The number of keys between two checks whether the step was cancelled."""


class LookupTable:
    """A table from scalar keys to values of one shape.

    Threads: `_lock` is held while `_entries` is replaced; the dictionary itself never changes.

    Attributes:
        key_dtype, value_dtype: element types.
        value_shape: shape of a value; () for most tables.
        key_shape: shape of a key; only dense tables have other keys than scalars.
        name: for messages.
    """

    is_mutable = True
    key_shape: tuple[int, ...] = ()
    has_reserved_keys = False

    def __init__(
        self,
        key_dtype: dtypes.DType,
        value_dtype: dtypes.DType,
        name: str,
        value_shape: tuple[int, ...] = (),
    ) -> None:
        self.key_dtype = key_dtype
        self.value_dtype = value_dtype
        self.value_shape = value_shape
        self.name = name
        self._lock = fork_safe_lock()
        self._entries: dict[Any, Any] = {}
        is_plain = key_dtype.kind == "i" and not value_shape and not self.has_reserved_keys
        self._index = IntegerIndex(value_dtype.as_numpy_dtype) if is_plain else None

    def __len__(self) -> int:
        return len(self._entries)

    def check_ready(self) -> None:
        """Raise FailedPreconditionError if the table is not initialized."""

    def keys_of(self, keys: Value) -> list[Any]:
        """Return the keys of a tensor as a flat list."""
        self._check_keys(keys)
        flat: list[Any] = keys.ravel().tolist()
        return flat

    def _check_keys(self, keys: Value) -> None:
        if keys.dtype != self.key_dtype.as_numpy_dtype:
            raise errors.InvalidArgumentError(
                f"table {self.name!r} has keys of {self.key_dtype.name}, got "
                f"{dtypes.as_dtype(keys.dtype).name}"
            )

    def _check_values(self, values: Value) -> None:
        if values.dtype != self.value_dtype.as_numpy_dtype:
            raise errors.InvalidArgumentError(
                f"table {self.name!r} has values of {self.value_dtype.name}, got "
                f"{dtypes.as_dtype(values.dtype).name}"
            )

    def outer_shape(self, keys: Value) -> tuple[int, ...]:
        """Return the shape of a tensor of keys, without the axes of a key."""
        shape: tuple[int, ...] = keys.shape
        return shape

    def _rows(self, values: Value, shape: tuple[int, ...]) -> Any:
        """Return `values` with shape (number of keys, *value shape); scalars as Python objects.

        Raises:
            InvalidArgumentError: the dtype is wrong, or there is not one value per key.
        """
        self._check_values(values)
        if values.shape != shape + self.value_shape:
            raise errors.InvalidArgumentError(
                f"Expected shape {list(shape + self.value_shape)} for values, got "
                f"{list(values.shape)}"
            )
        if not self.value_shape:
            flat: list[Any] = values.ravel().tolist()
            return flat
        return values.reshape(-1, *self.value_shape)

    def find(self, keys: Value, default: Value) -> Value:
        """Return the values of `keys`; for missing keys the default, or one of them per key."""
        self._check_keys(keys)
        self._check_values(default)
        shape = self.outer_shape(keys) + self.value_shape
        if default.shape not in (self.value_shape, shape):
            raise errors.InvalidArgumentError(
                f"Expected shape {list(self.value_shape)} or {list(shape)} for default value, "
                f"got {list(default.shape)}"
            )
        self.check_ready()
        if not self.is_mutable:
            default = default.reshape(-1)[:1]  # as in TensorFlow
        entries = self._entries
        if self._index is not None:
            indexed = self._index.find(entries, keys, default)
            if indexed is not None:
                return indexed.reshape(shape)
        flat, get = self.keys_of(keys), entries.get
        if not self.value_shape:
            defaults = default.ravel().tolist()
            each = repeat(defaults[0]) if len(defaults) == 1 else iter(defaults)
            dtype = self.value_dtype.as_numpy_dtype
            if len(flat) <= _BLOCK:
                return np.fromiter(map(get, flat, each), dtype, len(flat)).reshape(shape)
            parts = [
                np.fromiter(map(get, block, each), dtype, len(block)) for block in _blocks(flat)
            ]
            return np.concatenate(parts).reshape(shape)
        dtype = self.value_dtype.as_numpy_dtype
        check_size(shape, "the values of all keys", itemsize=dtype.itemsize)
        out = np.empty(shape, dtype)
        out[...] = default
        rows = out.reshape(-1, *self.value_shape)
        missing = object()
        for index, key in enumerate(cancellable(flat)):
            value = get(key, missing)
            if value is not missing:
                rows[index] = value
        return out

    def insert(self, keys: Value, values: Value) -> None:
        """Insert or update entries."""
        rows = self._rows(values, self.outer_shape(keys))
        with self._lock:
            self._entries = {**self._entries, **_entries(self.keys_of(keys), rows)}

    def replace(self, keys: Value, values: Value) -> None:
        """Replace all entries."""
        rows = self._rows(values, self.outer_shape(keys))
        with self._lock:
            self._entries = _entries(self.keys_of(keys), rows)

    def remove(self, keys: Value) -> None:
        """Remove entries; missing keys are ignored."""
        removed = set(self.keys_of(keys))
        with self._lock:
            self._entries = {key: row for key, row in self._entries.items() if key not in removed}

    def export(self) -> tuple[Value, Value]:
        """Return all keys and values in order of insertion."""
        entries = self._entries
        keys = self._key_array(entries)
        values = np.empty((len(entries), *self.value_shape), self.value_dtype.as_numpy_dtype)
        for index, row in enumerate(cancellable(entries.values())):
            values[index] = row
        return keys, values

    def _key_array(self, keys: Iterable[Any]) -> Any:
        items = list(keys)
        out = np.empty(len(items), self.key_dtype.as_numpy_dtype)
        out[:] = items
        return out


class InitializableTable(LookupTable):
    """A table that is initialized once; later initializations of equal size are ignored."""

    is_mutable = False

    def __init__(self, key_dtype: dtypes.DType, value_dtype: dtypes.DType, name: str) -> None:
        super().__init__(key_dtype, value_dtype, name)
        self.is_initialized = False

    def check_ready(self) -> None:
        """Raise FailedPreconditionError unless the table is initialized."""
        if not self.is_initialized:
            raise errors.FailedPreconditionError(
                f"Table not initialized: run the initializer of table {self.name!r} first"
            )

    def export(self) -> tuple[Value, Value]:
        """Return all keys and values in order of insertion.

        Raises:
            AbortedError: the table is not initialized.
        """
        if not self.is_initialized:
            raise errors.AbortedError(
                f"HashTable is not initialized: run the initializer of table {self.name!r} first"
            )
        return super().export()

    def initialize(self, keys: Value, values: Value) -> None:
        """Initialize the table.

        Raises:
            FailedPreconditionError: a key has two values, or the table has other entries.
            InvalidArgumentError: there are no keys.
        """
        if not keys.size:
            raise errors.InvalidArgumentError("keys and values cannot be empty tensors.")
        rows = self._rows(values, keys.shape)
        flat = self.keys_of(keys)
        with self._lock:
            if self.is_initialized:
                if len(flat) != len(self._entries):
                    raise errors.FailedPreconditionError(
                        f"Table {self.name!r} was already initialized with different data."
                    )
                return
            entries: dict[Any, Any] = {}
            for key, row in cancellable(zip(flat, rows, strict=True)):
                earlier = entries.setdefault(key, row)
                if earlier is not row and earlier != row:
                    raise errors.FailedPreconditionError(
                        f"HashTable has different value for same key. Key {key!r} has "
                        f"{entries[key]!r} and trying to add value {row!r}"
                    )
            self._entries = entries
            self.is_initialized = True

    def insert(self, keys: Value, values: Value) -> None:
        """Raise UnimplementedError: the table is immutable."""
        del keys, values
        raise errors.UnimplementedError(
            f"Insert not supported by InitializableLookupTable implementations ({self.name!r}); "
            "use a MutableHashTable"
        )

    def remove(self, keys: Value) -> None:
        """Raise UnimplementedError: the table is immutable."""
        del keys
        raise errors.UnimplementedError(
            f"Remove not supported by InitializableLookupTable implementations ({self.name!r}); "
            "use a MutableHashTable"
        )

    def replace(self, keys: Value, values: Value) -> None:
        """Initialize the table."""
        self.initialize(keys, values)


class Buckets:
    """The number of buckets of a dense table, which doubles at the maximum load factor.

    Raises:
        InvalidArgumentError: it is not a power of two, or less than four.
    """

    def __init__(self, count: int, max_load: float) -> None:
        if count < 4 or count & (count - 1):
            raise errors.InvalidArgumentError(
                f"Number of buckets must be at least 4 and a power of 2, got: {count}"
            )
        self.count = count
        self._max_load = max_load

    def grow_for(self, entries: int) -> None:
        """Double the number of buckets until `entries` are within the maximum load factor."""
        while entries > self.count * self._max_load:
            self.count *= 2


class DenseTable(LookupTable):
    """A mutable table whose keys may be tensors, with one or two reserved keys.

    The reserved keys mark empty and deleted buckets in TensorFlow, and are rejected here, too. The
    table has no buckets, but counts those of TensorFlow, because an export has a row per bucket;
    unused rows have the empty key. The rows are in order of insertion, not of hashes.
    """

    has_reserved_keys = True

    def __init__(
        self,
        reserved: Sequence[Value],
        value_dtype: dtypes.DType,
        value_shape: tuple[int, ...],
        name: str,
        buckets: Buckets,
    ) -> None:
        if len(value_shape) > 1:
            raise errors.InvalidArgumentError(
                f"Empty value must be a scalar or a vector, got shape {list(value_shape)}"
            )
        self._buckets = buckets
        self._empty = empty = reserved[0]
        super().__init__(dtypes.as_dtype(empty.dtype), value_dtype, name, value_shape)
        self.key_shape = empty.shape
        self._reserved: dict[Any, str] = {}
        for key in reserved:
            if key.shape != empty.shape:
                raise errors.InvalidArgumentError(
                    f"Empty and deleted keys must have same shape, got shapes: "
                    f"{list(empty.shape)} and {list(key.shape)}"
                )
        reserved_keys = [self.keys_of(key)[0] for key in reserved]
        self._reserved = dict(zip(reserved_keys, ("empty_key", "deleted_key"), strict=False))
        if len(self._reserved) < len(reserved):
            raise errors.InvalidArgumentError("Empty and deleted keys cannot be equal")

    def outer_shape(self, keys: Value) -> tuple[int, ...]:
        """Return the shape of a tensor of keys, without the axes of a key.

        Raises:
            InvalidArgumentError: the tensor is neither a key nor a batch of keys; axes of size one
                between batch and key are allowed.
        """
        rank = len(self.key_shape)
        count = keys.shape[0] if keys.ndim else 1
        if keys.shape[keys.ndim - rank :] != self.key_shape or keys.size != count * math.prod(
            self.key_shape
        ):
            raise errors.InvalidArgumentError(
                f"Expected key shape {list(keys.shape[:1] + self.key_shape)} got {list(keys.shape)}"
            )
        shape: tuple[int, ...] = keys.shape[: keys.ndim - rank]
        return shape

    def keys_of(self, keys: Value) -> list[Any]:
        """Return the keys as scalars or tuples.

        Raises:
            InvalidArgumentError: a key is reserved.
        """
        flat = self._flat_keys(keys)
        for key in cancellable(flat) if self._reserved else ():
            if key in self._reserved:
                raise errors.InvalidArgumentError(
                    f"Using the {self._reserved[key]} as a table key is not allowed"
                )
        return flat

    def _flat_keys(self, keys: Value) -> list[Any]:
        flat = super().keys_of(keys)
        if not self.key_shape:
            return flat
        size = int(np.prod(self.key_shape, dtype=np.int64))
        starts = cancellable(range(0, len(flat), size))
        return [tuple(flat[start : start + size]) for start in starts]

    def insert(self, keys: Value, values: Value) -> None:
        """Insert or update entries; add buckets as if all keys were new."""
        rows = self._rows(values, self.outer_shape(keys))
        flat = self.keys_of(keys)
        with self._lock:
            self._buckets.grow_for(len(self._entries) + len(flat))
            self._entries = {**self._entries, **_entries(flat, rows)}

    def remove(self, keys: Value) -> None:
        """Remove entries; missing keys are ignored.

        Raises:
            InvalidArgumentError: the keys are not a batch of keys.
        """
        if not self.outer_shape(keys):
            raise errors.InvalidArgumentError(
                f"Expected keys of shape {['n', *self.key_shape]}, got {list(keys.shape)}"
            )
        super().remove(keys)

    def replace(self, keys: Value, values: Value) -> None:
        """Replace all entries with exported rows, one per bucket; empty buckets are skipped.

        Raises:
            InvalidArgumentError: keys or values do not have the shape of exported rows.
        """
        rows = {"keys": (keys, self.key_shape), "values": (values, self.value_shape)}
        for name, (tensor, shape) in rows.items():
            if tensor.shape != (len(keys) if keys.ndim else 1, *(shape or (1,))):
                raise errors.InvalidArgumentError(
                    f"Expected shape {[*(shape or (1,))]} for each row of the {name}, got "
                    f"{list(tensor.shape)}"
                )
        flat = self._flat_keys(keys)
        used = [index for index, key in enumerate(cancellable(flat)) if key not in self._reserved]
        new_rows = self._rows(values[used].reshape(-1, *self.value_shape), (len(used),))
        with self._lock:
            self._buckets.count = len(flat)
            self._entries = dict(zip((flat[index] for index in used), new_rows, strict=True))

    def export(self) -> tuple[Value, Value]:
        """Return one row per bucket: the entries, then empty keys with zeros."""
        with self._lock:
            count, (keys, values) = self._buckets.count, super().export()
        shapes = [(count, *(shape or (1,))) for shape in (self.key_shape, self.value_shape)]
        for shape, found in zip(shapes, (keys, values), strict=True):
            check_size(shape, "a tensor with a row per bucket", itemsize=found.itemsize)
        all_keys = np.empty(shapes[0], keys.dtype)
        fill = b"" if values.dtype.kind == "O" else 0
        all_values = np.full(shapes[1], fill, values.dtype)
        all_keys[...] = self._empty
        all_keys[: len(keys)] = keys.reshape(-1, *all_keys.shape[1:])
        all_values[: len(keys)] = values.reshape(-1, *all_values.shape[1:])
        return all_keys, all_values

    def _key_array(self, keys: Iterable[Any]) -> Any:
        items = list(keys)
        dtype = self.key_dtype.as_numpy_dtype
        if not self.key_shape:
            return super()._key_array(items)
        flat = [part for item in items for part in item]
        out = np.empty(len(flat), dtype)
        out[:] = flat
        return out.reshape(len(items), *self.key_shape)


def _blocks(flat: list[Any]) -> Iterator[list[Any]]:
    """Yield keys in blocks; end when the step is cancelled."""
    for start in cancellable(range(0, len(flat), _BLOCK), interval=1):
        yield flat[start : start + _BLOCK]


def _entries(keys: list[Any], rows: Iterable[Any]) -> dict[Any, Any]:
    """Return the entries of keys and as many rows; end when the step is cancelled."""
    if len(keys) <= _BLOCK:
        return dict(zip(keys, rows, strict=True))
    remaining, entries = iter(rows), dict[Any, Any]()
    for part in _blocks(keys):
        entries.update(zip(part, remaining, strict=False))
    return entries
