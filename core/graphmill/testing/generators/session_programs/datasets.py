"""Iterators of datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.testing.generators.session_programs.program import Step, Value
from graphmill.testing.generators.session_programs.resource import Resource, chance, pick

if TYPE_CHECKING:
    from graphmill.testing.generators.dataflow_graphs import Chooser


class DatasetIterator(Resource):
    """An iterator of a range that passes through a random chain of datasets."""

    def __init__(self, name: str, chooser: Chooser) -> None:
        super().__init__(name, chooser)
        kinds = ["map", "filter", "shuffle", "take", "skip", "repeat"]
        self.chain = [pick(chooser, kinds) for _ in range(chooser.integer(0, 3))]
        self.numbers = [chooser.integer(1, 4) for _ in self.chain]
        self.is_batched = chance(chooser, 2)
        self.drops = chance(chooser, 2)

    def functions(self) -> list[str]:
        """Return the functions of `map` and `filter`."""
        n = self.name
        return [
            f"{n}_square(x: int64) -> (int64): y = Mul(x, x); return y",
            (
                f"{n}_even(x: int64) -> (bool):"
                " two = Const(dtype=int64, value='int64: 2');"
                " zero = Const(dtype=int64, value='int64: 0');"
                " m = FloorMod(x, two); y = Equal(m, zero); return y"
            ),
        ]

    def placeholders(self) -> dict[str, str]:
        """Return the placeholder of the end of the range."""
        return {f"{self.name}_end": "int64"}

    def nodes(self) -> list[str]:
        """Return the chain, the iterator and its ops."""
        n, same = self.name, "output_types=[int64], output_shapes=[[]]"
        made = [
            *(f"{n}_c{i} = Const(dtype=int64, value='int64: {i}')" for i in range(8)),
            f"{n}_d = RangeDataset({n}_c0, {n}_end, {n}_c1, {same})",
        ]
        last = f"{n}_d"
        for position, (kind, number) in enumerate(zip(self.chain, self.numbers, strict=True)):
            made.append(f"{n}_d{position} = {self._dataset(kind, number, last)}, {same})")
            last = f"{n}_d{position}"
        if self.is_batched:
            same = "output_types=[int64], output_shapes=[[-1]]"
            made.append(f"{n}_drop = Const(dtype=bool, value='bool: {self.drops}')")
            made.append(f"{n}_b = BatchDatasetV2({last}, {n}_c2, {n}_drop, {same})")
            last = f"{n}_b"
        return [
            *made,
            f"{n} = IteratorV2({same}, shared_name='{n}', container='')",
            f"{n}_make = MakeIterator({last}, {n})",
            f"{n}_next = IteratorGetNext({n}, {same})",
            f"{n}_maybe = IteratorGetNextAsOptional({n}, {same})",
            f"{n}_has = OptionalHasValue({n}_maybe)",
        ]

    def _dataset(self, kind: str, number: int, source: str) -> str:
        n = self.name
        if kind == "map":
            return f"MapDataset({source}, [], f='{n}_square', Targuments=[]"
        if kind == "filter":
            return f"FilterDataset({source}, [], predicate='{n}_even', Targuments=[]"
        if kind == "shuffle":
            return f"ShuffleDataset({source}, {n}_c{number}, {n}_c{number + 1}, {n}_c{number + 2}"
        return f"{kind.capitalize()}Dataset({source}, {n}_c{number}"

    def start(self, chooser: Chooser) -> Step:
        """Draw a step that starts the iterator."""
        end = ((f"{self.name}_end:0", Value("int64", chooser.integer(0, 8))),)
        return Step(self.name, ("make",), (), (f"{self.name}_make",), end)

    def draw(self, chooser: Chooser) -> Step:
        """Draw a step that starts the iterator, or takes an element."""
        n = self.name
        if chance(chooser, 4):
            return self.start(chooser)
        return Step(n, ("next",), (pick(chooser, (f"{n}_next:0", f"{n}_next:0", f"{n}_has:0")),))
