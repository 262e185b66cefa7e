"""Lookup table kernels: create, find, insert, remove, import, export, size.

Semantics: tensorflow/core/kernels/lookup_table_op.cc. The handle of the v1 ops is a reference to
the two strings (container, name) instead of a resource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphmill import dtypes, errors
from graphmill.spi import Ref, ResourceHandle, kernel
from graphmill_plugins.kernels._strings import string_array
from graphmill_plugins.kernels._support import object_array
from graphmill_plugins.kernels.lookup._lookup_table import (
    Buckets,
    DenseTable,
    InitializableTable,
    LookupTable,
)
from graphmill_plugins.kernels.state.value import resource_key

if TYPE_CHECKING:
    from graphmill.spi import OpKernelConstruction, OpKernelContext, Value

_STATE = ("state",)


class _TableKernel:
    """Find or create a node's table, and return its handle."""

    is_reference = False

    def __init__(self, construction: OpKernelConstruction) -> None:
        self._attrs = construction.attrs
        self._container, self._name = resource_key(
            construction,
            is_shared_by_node_name=self._attrs.get("use_node_name_sharing", False),
        )
        self._value_dtype: dtypes.DType = self._attrs["value_dtype"]
        self.is_reference = construction.op_def.output_args[0].is_ref
        self._is_anonymous = construction.op.startswith("Anonymous")

    def _make(self, *inputs: Value) -> LookupTable:
        raise NotImplementedError

    def __call__(self, ctx: OpKernelContext, *inputs: Value) -> Value:
        """Return the handle, or the reference to (container, name)."""
        if self._is_anonymous:
            table = self._make(*inputs)
        else:
            table = ctx.resources.lookup_or_create(
                self._container, self._name, LookupTable, lambda: self._make(*inputs)
            )
        if table.value_dtype is not self._value_dtype or not self._has_keys(table, *inputs):
            raise errors.InvalidArgumentError(
                f"Conflicting key/value dtypes for table {self._name}: it maps "
                f"{table.key_dtype.name} to {table.value_dtype.name}; use "
                "different shared_name attrs for the two tables"
            )
        container = self._container or ctx.resources.default_container
        if not self.is_reference:
            return ResourceHandle(ctx.device.name, container, self._name, "LookupTable", table)
        ref = Ref(dtypes.string, (2,), self._name)
        ref.value = string_array([container.encode(), self._name.encode()])
        return ref

    def _has_keys(self, table: LookupTable, *inputs: Value) -> bool:
        del inputs
        return table.key_dtype is self._attrs["key_dtype"]


@kernel("HashTable", "HashTableV2", "AnonymousHashTable", stateful=True, host=True, effects=_STATE)
class HashTableKernel(_TableKernel):
    """Return the handle of a table that is initialized once."""

    def _make(self, *inputs: Value) -> LookupTable:
        del inputs
        return InitializableTable(self._attrs["key_dtype"], self._value_dtype, self._name)


@kernel(
    "MutableHashTable",
    "MutableHashTableV2",
    "MutableHashTableOfTensors",
    "MutableHashTableOfTensorsV2",
    "AnonymousMutableHashTable",
    "AnonymousMutableHashTableOfTensors",
    stateful=True,
    host=True,
    effects=_STATE,
)
class MutableHashTableKernel(_TableKernel):
    """Return the handle of a mutable table."""

    def _make(self, *inputs: Value) -> LookupTable:
        del inputs
        shape = self._attrs.get("value_shape") or ()
        return LookupTable(self._attrs["key_dtype"], self._value_dtype, self._name, shape)


@kernel(
    "MutableDenseHashTable",
    "MutableDenseHashTableV2",
    "AnonymousMutableDenseHashTable",
    stateful=True,
    host=True,
    effects=_STATE,
)
class MutableDenseHashTableKernel(_TableKernel):
    """Return the handle of a mutable table whose keys may be tensors."""

    def _make(self, *inputs: Value) -> LookupTable:
        shape = self._attrs.get("value_shape") or ()
        buckets = Buckets(self._attrs["initial_num_buckets"], self._attrs["max_load_factor"])
        return DenseTable(inputs, self._value_dtype, shape, self._name, buckets)

    def _has_keys(self, table: LookupTable, *inputs: Value) -> bool:
        return bool(table.key_dtype.as_numpy_dtype == inputs[0].dtype)


def table_of(ctx: OpKernelContext, handle: Any) -> LookupTable:
    """Return the table of a handle of either kind.

    Raises:
        FailedPreconditionError, NotFoundError: it no longer exists.
        InvalidArgumentError: the handle is not that of a table.
    """
    if isinstance(handle, ResourceHandle):
        table: LookupTable = handle.expect(LookupTable)
        return table
    names = handle.read() if isinstance(handle, Ref) else handle
    container, name = (part.decode() for part in names.tolist())
    return ctx.resources.lookup(container, name, LookupTable)


@kernel("LookupTableFind", "LookupTableFindV2", stateful=True, host=True, effects=_STATE)
def lookup_table_find(
    ctx: OpKernelContext, table_handle: Any, keys: Value, default_value: Value
) -> Value:
    """Return the values of the keys, and the default value for missing keys."""
    table = table_of(ctx, table_handle)
    if table.value_dtype.kind != "h":
        return table.find(keys, default_value)
    values = table.find(keys, object_array(default_value))
    return values if values.ndim else values.item()


@kernel("LookupTableInsert", "LookupTableInsertV2", stateful=True, host=True, effects=_STATE)
def lookup_table_insert(
    ctx: OpKernelContext, table_handle: Any, keys: Value, values: Value
) -> None:
    """Insert or update entries of a mutable table."""
    table = table_of(ctx, table_handle)
    table.insert(keys, object_array(values) if table.value_dtype.kind == "h" else values)


@kernel("LookupTableRemoveV2", stateful=True, host=True, effects=_STATE)
def lookup_table_remove(ctx: OpKernelContext, table_handle: Any, keys: Value) -> None:
    """Remove entries of a mutable table."""
    table_of(ctx, table_handle).remove(keys)


@kernel("LookupTableImport", "LookupTableImportV2", stateful=True, host=True, effects=_STATE)
def lookup_table_import(
    ctx: OpKernelContext, table_handle: Any, keys: Value, values: Value
) -> None:
    """Replace all entries of a table, or initialize a HashTable."""
    table_of(ctx, table_handle).replace(keys, values)


@kernel(
    "LookupTableExport",
    "LookupTableExportV2",
    stateful=True,
    host=True,
    dynamic_shape=True,
    effects=_STATE,
)
def lookup_table_export(
    ctx: OpKernelContext, table_handle: Any, Tkeys: np.dtype[Any], Tvalues: np.dtype[Any]
) -> tuple[Value, Value]:
    """Return all keys and all values."""
    table = table_of(ctx, table_handle)
    types = table.key_dtype.as_numpy_dtype, table.value_dtype.as_numpy_dtype
    if types != (Tkeys, Tvalues):
        raise errors.InvalidArgumentError(
            f"table {table.name!r} has keys of {table.key_dtype.name} and values of "
            f"{table.value_dtype.name}; the node's outputs are of {Tkeys} and {Tvalues}"
        )
    return table.export()


@kernel("LookupTableSize", "LookupTableSizeV2", stateful=True, host=True, effects=_STATE)
def lookup_table_size(ctx: OpKernelContext, table_handle: Any) -> Value:
    """Return the number of entries."""
    return np.int64(len(table_of(ctx, table_handle)))


def initializable(ctx: OpKernelContext, handle: Any) -> InitializableTable:
    """Return the table of a handle, which must support initialization.

    Raises:
        InvalidArgumentError: it is a mutable table.
    """
    table = table_of(ctx, handle)
    if not isinstance(table, InitializableTable):
        raise errors.InvalidArgumentError(
            f"Table {table.name!r} cannot be initialized: it is a mutable table"
        )
    return table


@kernel("InitializeTable", "InitializeTableV2", stateful=True, host=True, effects=_STATE)
def initialize_table(ctx: OpKernelContext, table_handle: Any, keys: Value, values: Value) -> None:
    """Initialize a table from a vector of keys and one of values."""
    for name, value in (("Keys", keys), ("Values", values)):
        if value.ndim != 1:
            raise errors.InvalidArgumentError(
                f"{name} must be a vector, but received shape: {list(value.shape)}"
            )
    if keys.shape != values.shape:
        raise errors.InvalidArgumentError(
            f"Keys and values must have the same size {keys.size} vs {values.size}"
        )
    initializable(ctx, table_handle).initialize(keys, values)
