"""The stateless forms of ops that read variables, and how the contents of tables are written.

A graph is frozen by giving each variable's readers its value: `ReadVariableOp` of a handle becomes
`Identity` of the value. Semantics: tensorflow/python/framework/convert_to_constants.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from graphmill import dtypes
from graphmill.ops.attrs.attr_types import TensorAttr

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class FrozenRead(NamedTuple):
    """The op that replaces a reader of a variable if its first input is the variable's value.

    Attributes:
        op: the name of the op.
        attrs: its attrs, without those that have defaults.
        constants: further inputs.
        takes_inputs: whether it has the reader's inputs.
    """

    op: str
    attrs: Mapping[str, Any]
    constants: tuple[np.ndarray[Any, Any], ...] = ()
    takes_inputs: bool = True


class TableOps(NamedTuple):
    """The op that returns the contents of a table, and the op that fills a table."""

    export: str
    fill: str


def _read(attrs: Mapping[str, Any], dtype: dtypes.DType) -> FrozenRead:
    del attrs
    return FrozenRead("Identity", {"T": dtype})


def _gather(attrs: Mapping[str, Any], dtype: dtypes.DType) -> FrozenRead:
    batch_dims = attrs["batch_dims"]
    types = {"Tparams": dtype, "Tindices": attrs["Tindices"], "Taxis": dtypes.int32}
    axis = np.asarray(batch_dims, np.int32)
    return FrozenRead("GatherV2", {**types, "batch_dims": batch_dims}, (axis,))


def _gather_nd(attrs: Mapping[str, Any], dtype: dtypes.DType) -> FrozenRead:
    return FrozenRead("GatherNd", {"Tparams": dtype, "Tindices": attrs["Tindices"]})


def _shape(attrs: Mapping[str, Any], dtype: dtypes.DType) -> FrozenRead:
    return FrozenRead("Shape", {"T": dtype, "out_type": attrs["out_type"]})


def _true(attrs: Mapping[str, Any], dtype: dtypes.DType) -> FrozenRead:
    del attrs, dtype
    value = TensorAttr(np.asarray(True))
    return FrozenRead("Const", {"dtype": dtypes.bool, "value": value}, takes_inputs=False)


FROZEN_READS: Final[Mapping[str, Callable[[Mapping[str, Any], dtypes.DType], FrozenRead]]] = {
    "ReadVariableOp": _read,
    "ResourceGather": _gather,
    "ResourceGatherNd": _gather_nd,
    "VariableShape": _shape,
    "VarIsInitializedOp": _true,
    "IsVariableInitialized": _true,
}
"""Replacements of readers, by op; the functions take the reader's attrs and the variable's type."""

VALUE_FORMS: Final[Mapping[str, str]] = {
    "RefEnter": "Enter",
    "RefExit": "Exit",
    "RefIdentity": "Identity",
    "RefMerge": "Merge",
    "RefNextIteration": "NextIteration",
    "RefSwitch": "Switch",
}
"""The op that forwards a value, by the op that forwards a reference."""

_INITIALIZED: Final = TableOps("LookupTableExportV2", "InitializeTableV2")
_MUTABLE: Final = TableOps("LookupTableExportV2", "LookupTableImportV2")

TABLES: Final[Mapping[str, TableOps]] = {
    "HashTable": TableOps("LookupTableExport", "InitializeTable"),
    "HashTableV2": _INITIALIZED,
    "MutableHashTable": TableOps("LookupTableExport", "LookupTableImport"),
    "MutableHashTableV2": _MUTABLE,
    "MutableHashTableOfTensors": TableOps("LookupTableExport", "LookupTableImport"),
    "MutableHashTableOfTensorsV2": _MUTABLE,
    "MutableDenseHashTable": TableOps("LookupTableExport", "LookupTableImport"),
    "MutableDenseHashTableV2": _MUTABLE,
}
"""How tables are read and filled, by the op that creates the table."""
