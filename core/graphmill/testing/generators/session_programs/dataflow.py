"""Nodes without state: chains of arithmetic, tensor arrays and stacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.testing.generators.session_programs.program import Step, Value
from graphmill.testing.generators.session_programs.resource import Resource, chance, pick

if TYPE_CHECKING:
    from graphmill.testing.generators.dataflow_graphs import Chooser


class Arithmetic(Resource):
    """Arithmetic on three placeholders, whose intermediate tensors are also fed."""

    INPUTS: Final = ("a", "b", "c")
    NEEDS: Final[dict[str, tuple[str, ...]]] = {
        "sum": ("a", "b"),
        "product": ("a", "b", "c"),
        "tanh": ("c",),
        "all": ("a", "b", "c"),
    }

    def placeholders(self) -> dict[str, str]:
        """Return the placeholders of the three inputs."""
        return {f"{self.name}_{letter}": "float32" for letter in self.INPUTS}

    def nodes(self) -> list[str]:
        """Return the sum, the product and others."""
        n = self.name
        return [
            f"{n}_sum = AddV2({n}_a, {n}_b)",
            f"{n}_product = Mul({n}_sum, {n}_c)",
            f"{n}_tanh = Tanh({n}_c)",
            f"{n}_all = AddN([{n}_product, {n}_tanh, {n}_sum])",
            f"{n}_three = Const(dtype=float32, value='float32: [1, 2, 3]')",
            f"{n}_fixed = AddV2({n}_three, {n}_three)",
            f"{n}_checked = CheckNumerics({n}_all, message='not finite')",
            f"{n}_void = NoOp(after=[{n}_checked])",
        ]

    def scalar(self, chooser: Chooser) -> Value:
        """Draw a scalar."""
        return Value("float32", chooser.integer(-4, 4) / 2)

    def value(self, chooser: Chooser) -> Value:
        """Draw a scalar or a vector."""
        number = chooser.integer(-4, 4) / 2
        return Value("float32", pick(chooser, (number, number, [number, 1.0], [number] * 3)))

    def draw(self, chooser: Chooser) -> Step:
        """Draw some fetches, with all or only some of the feeds that they need."""
        n = self.name
        names = [pick(chooser, [*self.NEEDS, "checked"]) for _ in range(chooser.integer(1, 2))]
        fetches = tuple(dict.fromkeys(f"{n}_{name}:0" for name in names))
        feeds = {f"{n}_{letter}:0": self.value(chooser) for letter in self.INPUTS}
        if chance(chooser, 3):
            inner = pick(chooser, ("sum", "product", "tanh"))
            feeds[f"{n}_{inner}:0"] = self.value(chooser)
        if chance(chooser, 4):
            feeds.pop(f"{n}_{pick(chooser, self.INPUTS)}:0")
        if chance(chooser, 4):
            feeds[f"{n}_three:0"] = self.value(chooser)
            fetches = (*fetches, f"{n}_fixed:0")
        targets = (f"{n}_void",) if chance(chooser, 5) else ()
        return Step(n, ("values",), fetches, targets, tuple(feeds.items()))


class Arrays(Resource):
    """A tensor array and a stack, whose indices are fed."""

    def placeholders(self) -> dict[str, str]:
        """Return placeholders of indices and a value."""
        n = self.name
        return {f"{n}_i": "int32", f"{n}_j": "int32", f"{n}_x": "float32", f"{n}_m": "int32"}

    def nodes(self) -> list[str]:
        """Return a tensor array with writes and reads, and a stack with pushes and pops."""
        n = self.name
        return [
            f"{n}_two = Const(dtype=int32, value='int32: 2')",
            f"{n}_0 = TensorArrayV3({n}_two, dtype=float32)",
            f"{n}_1 = TensorArrayWriteV3({n}_0, {n}_i, {n}_x, {n}_0[1])",
            f"{n}_y = Neg({n}_x)",
            f"{n}_2 = TensorArrayWriteV3({n}_0, {n}_j, {n}_y, {n}_1)",
            f"{n}_read = TensorArrayReadV3({n}_0, {n}_i, {n}_2, dtype=float32)",
            f"{n}_range = Const(dtype=int32, value='int32: [0, 1]')",
            f"{n}_all = TensorArrayGatherV3({n}_0, {n}_range, {n}_2, dtype=float32)",
            f"{n}_s = StackV2({n}_m, elem_type=float32)",
            f"{n}_p = StackPushV2({n}_s, {n}_x)",
            f"{n}_q = StackPushV2({n}_s, {n}_y, after=[{n}_p])",
            f"{n}_pop = StackPopV2({n}_s, elem_type=float32, after=[{n}_q])",
        ]

    def draw(self, chooser: Chooser) -> Step:
        """Draw a step on the array or on the stack."""
        n = self.name
        feeds = [(f"{n}_x:0", Value("float32", [float(chooser.integer(0, 9))] * 2))]
        if chance(chooser, 3):
            feeds.append((f"{n}_m:0", Value("int32", pick(chooser, (-1, 1, 2)))))
            return Step(n, ("stack",), (f"{n}_pop:0",), (), tuple(feeds))
        first = chooser.integer(0, 1)
        second = chooser.integer(-1, 2) if chance(chooser, 2) else 1 - first
        feeds.append((f"{n}_i:0", Value("int32", first)))
        feeds.append((f"{n}_j:0", Value("int32", second)))
        fetch = pick(chooser, (f"{n}_read:0", f"{n}_all:0"))
        return Step(n, ("array",), (fetch,), (), tuple(feeds))
