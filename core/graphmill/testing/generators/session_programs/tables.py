"""Lookup tables, static and mutable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.testing.generators.session_programs.program import Step, Value
from graphmill.testing.generators.session_programs.queues import scalar
from graphmill.testing.generators.session_programs.resource import Resource, chance, pick

if TYPE_CHECKING:
    from graphmill.testing.generators.dataflow_graphs import Chooser

_KINDS = ("HashTableV2", "MutableHashTableV2", "MutableHashTableOfTensorsV2", "MutableDense")


class Table(Resource):
    """A table; its keys are int64 or strings, its values numbers, strings or vectors."""

    def __init__(self, name: str, chooser: Chooser) -> None:
        super().__init__(name, chooser)
        self.kind = pick(chooser, _KINDS)
        self.key = pick(chooser, ("int64", "string"))
        self.value = pick(chooser, ("float32", "int64"))
        if self.kind in ("HashTableV2", "MutableHashTableV2"):
            # The pairs of types for which TensorFlow has kernels.
            self.value = pick(chooser, ("float32", "int64") if self.key == "string" else ("int64",))

    def placeholders(self) -> dict[str, str]:
        """Return placeholders of keys, values and the default value."""
        n = self.name
        return {f"{n}_k": self.key, f"{n}_v": self.value, f"{n}_d": self.value}

    def nodes(self) -> list[str]:
        """Return the table and its ops."""
        n, types = self.name, f"key_dtype={self.key}, value_dtype={self.value}"
        table = [f"{n} = {self.kind}({types})"]
        if self.kind == "MutableHashTableOfTensorsV2":
            table = [f"{n} = {self.kind}({types}, value_shape=[2])"]
        if self.kind == "MutableDense":
            empty, dead = ("'int64: -1'", "'int64: -2'")
            if self.key == "string":
                empty, dead = ("\"string: b'none'\"", "\"string: b'dead'\"")
            table = [
                f"{n}_e = Const(dtype={self.key}, value={empty})",
                f"{n}_r = Const(dtype={self.key}, value={dead})",
                (
                    f"{n} = MutableDenseHashTableV2({n}_e, {n}_r, value_dtype={self.value},"
                    " value_shape=[], initial_num_buckets=4)"
                ),
            ]
        table.append(f"{n}_find = LookupTableFindV2({n}, {n}_k, {n}_d)")
        table.append(f"{n}_size = LookupTableSizeV2({n})")
        if self.kind == "HashTableV2":
            return [*table, f"{n}_put = InitializeTableV2({n}, {n}_k, {n}_v)"]
        return [
            *table,
            f"{n}_put = LookupTableInsertV2({n}, {n}_k, {n}_v)",
            f"{n}_all = LookupTableImportV2({n}, {n}_k, {n}_v)",
            f"{n}_drop = LookupTableRemoveV2({n}, {n}_k)",
        ]

    def start(self, chooser: Chooser) -> Step:
        """Draw an initialization."""
        return self._fill(chooser, "put", self._keys(chooser), 0)

    def draw(self, chooser: Chooser) -> Step:
        """Draw one of the ops."""
        n, which = self.name, chooser.integer(0, 9)
        is_mutable = self.kind != "HashTableV2"
        keys = self._keys(chooser)
        keyed = (f"{n}_k:0", Value(self.key, keys))
        default = Value(self.value, self._value(chooser))
        if which < 4:
            feeds = (keyed, (f"{n}_d:0", default))
            event = ("ok",) if is_mutable else ("find",)
            return Step(n, event, (f"{n}_find:0",), (), feeds)
        if which < 6:
            return Step(n, ("ok",) if is_mutable else ("size",), (f"{n}_size:0",))
        if which == 6 and is_mutable:
            return Step(n, ("drop",), (), (f"{n}_drop",), (keyed,))
        # TensorFlow's dense table ends the process if keys are imported that are a vector.
        imports = self.kind.startswith("MutableHashTable") and chance(chooser, 4)
        how = "all" if imports else "put"
        return self._fill(chooser, how, keys, int(chance(chooser, 12)))

    def _fill(self, chooser: Chooser, how: str, keys: list[object], more: int) -> Step:
        n = self.name
        values = [self._value(chooser) for _ in range(len(keys) + more)]
        feeds = ((f"{n}_k:0", Value(self.key, keys)), (f"{n}_v:0", Value(self.value, values)))
        return Step(n, (how,), (), (f"{n}_{how}",), feeds)

    def _keys(self, chooser: Chooser) -> list[object]:
        # Distinct keys: TensorFlow keeps some entries of an initialization that fails.
        numbers = dict.fromkeys(chooser.integer(0, 5) for _ in range(chooser.integer(1, 3)))
        return [b"k%d" % number if self.key == "string" else number for number in numbers]

    def _value(self, chooser: Chooser) -> object:
        if self.kind == "MutableHashTableOfTensorsV2":
            return [scalar(chooser, self.value) for _ in range(2)]
        return scalar(chooser, self.value)
