"""Variables with references and handles, random numbers, tensors in a session's store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.testing.generators.session_programs.program import Handle, Step, Value
from graphmill.testing.generators.session_programs.resource import Resource, chance, pick

if TYPE_CHECKING:
    from graphmill.testing.generators.dataflow_graphs import Chooser


def _indices(chooser: Chooser, count: int) -> list[int]:
    """Draw indices of a vector of length 3; only the first one may be out of range.

    What follows a wrong index is not written, but TensorFlow writes what precedes it.
    """
    return [chooser.integer(0, 3), *(chooser.integer(0, 2) for _ in range(count - 1))]


class Variable(Resource):
    """A vector of length 3 in a variable with a handle."""

    def placeholders(self) -> dict[str, str]:
        """Return placeholders of a value, indices and rows."""
        return {f"{self.name}_x": "float32", f"{self.name}_i": "int32"}

    def nodes(self) -> list[str]:
        """Return the variable and its ops."""
        n = self.name
        return [
            f"{n} = VarHandleOp(dtype=float32, shape=[3], shared_name='{n}')",
            f"{n}_assign = AssignVariableOp({n}, {n}_x)",
            f"{n}_add = AssignAddVariableOp({n}, {n}_x)",
            f"{n}_scatter = ResourceScatterAdd({n}, {n}_i, {n}_x)",
            f"{n}_read = ReadVariableOp({n}, dtype=float32)",
            f"{n}_double = AddV2({n}_read, {n}_read)",
            f"{n}_after = ReadVariableOp({n}, dtype=float32, after=[{n}_add])",
            f"{n}_is = VarIsInitializedOp({n})",
            f"{n}_destroy = DestroyResourceOp({n})",
            f"{n}_gone = DestroyResourceOp({n}, ignore_lookup_error=False)",
        ]

    def start(self, chooser: Chooser) -> Step:
        """Draw an assignment."""
        value = Value("float32", [float(chooser.integer(0, 9))] * 3)
        feeds = ((f"{self.name}_x:0", value),)
        return Step(self.name, ("assign",), (), (f"{self.name}_assign",), feeds)

    def draw(self, chooser: Chooser) -> Step:
        """Draw one of the ops."""
        n, which = self.name, chooser.integer(0, 15)
        length = 2 if chance(chooser, 10) else 3
        value = (f"{n}_x:0", Value("float32", [float(chooser.integer(0, 9))] * length))
        if which < 4:
            return Step(n, ("assign",), (), (f"{n}_assign",), (value,))
        if which < 6:
            return Step(n, ("add",), (f"{n}_after:0",), (), (value,))
        if which < 8:
            index = Value("int32", _indices(chooser, length))
            return Step(n, ("scatter",), (), (f"{n}_scatter",), (value, (f"{n}_i:0", index)))
        if which < 12:
            return Step(n, ("read",), (f"{n}_double:0", f"{n}_read:0"))
        if which < 14:
            return Step(n, ("ok",), (f"{n}_is:0",))
        return Step(n, ("gone",), (), (f"{n}_{pick(chooser, ('destroy', 'gone'))}",))


class ReferenceVariable(Resource):
    """A vector of length 3 in a variable with a reference, and a counter."""

    def placeholders(self) -> dict[str, str]:
        """Return placeholders of a value and indices."""
        return {f"{self.name}_x": "float32", f"{self.name}_i": "int32"}

    def nodes(self) -> list[str]:
        """Return the variables and their ops."""
        n = self.name
        return [
            f"{n} = VariableV2(dtype=float32, shape=[3], shared_name='{n}')",
            f"{n}_assign = Assign({n}, {n}_x)",
            f"{n}_add = AssignAdd({n}, {n}_x)",
            f"{n}_twice = AssignSub({n}_add, {n}_x)",
            f"{n}_scatter = ScatterUpdate({n}, {n}_i, {n}_x)",
            f"{n}_read = Identity({n})",
            f"{n}_is = IsVariableInitialized({n})",
            f"{n}_c = VariableV2(dtype=int32, shape=[], shared_name='{n}_c')",
            f"{n}_zero = Const(dtype=int32, value='int32: 0')",
            f"{n}_start = Assign({n}_c, {n}_zero)",
            f"{n}_count = CountUpTo({n}_c, limit=2)",
        ]

    def start(self, chooser: Chooser) -> Step:
        """Draw an assignment."""
        value = Value("float32", [float(chooser.integer(0, 9))] * 3)
        feeds = ((f"{self.name}_x:0", value),)
        return Step(self.name, ("assign",), (), (f"{self.name}_assign",), feeds)

    def draw(self, chooser: Chooser) -> Step:
        """Draw one of the ops."""
        n, which = self.name, chooser.integer(0, 15)
        length = 2 if chance(chooser, 10) else 3
        value = (f"{n}_x:0", Value("float32", [float(chooser.integer(0, 9))] * length))
        if which < 8:
            how = pick(chooser, ("assign", "assign", "add", "twice"))
            if chance(chooser, 2):
                return Step(n, (how,), (), (f"{n}_{how}",), (value,))
            return Step(n, (how,), (f"{n}_{how}:0",), (), (value,))
        if which < 9:
            index = Value("int32", _indices(chooser, length))
            return Step(n, ("scatter",), (f"{n}_scatter:0",), (), (value, (f"{n}_i:0", index)))
        if which < 12:
            return Step(n, ("read",), (pick(chooser, (f"{n}_read:0", f"{n}:0")),))
        if which < 13:
            return Step(n, ("ok",), (f"{n}_is:0",))
        how = pick(chooser, ("start", "count", "count"))
        return Step(n, (how,), (f"{n}_{how}:0",))


class Random(Resource):
    """Random ops, whose generator state persists between the runs of a session."""

    def __init__(self, name: str, chooser: Chooser) -> None:
        super().__init__(name, chooser)
        self.seeds = (chooser.integer(1, 9), chooser.integer(0, 9))

    def nodes(self) -> list[str]:
        """Return two random ops with the same seeds."""
        n, (first, second) = self.name, self.seeds
        seeds = f"seed={first}, seed2={second}"
        return [
            f"{n}_shape = Const(dtype=int32, value='int32: [3]')",
            f"{n}_low = Const(dtype=int32, value='int32: -5')",
            f"{n}_high = Const(dtype=int32, value='int32: 50')",
            f"{n}_u = RandomUniform({n}_shape, dtype=float32, {seeds})",
            f"{n}_i = RandomUniformInt({n}_shape, {n}_low, {n}_high, {seeds})",
        ]

    def draw(self, chooser: Chooser) -> Step:
        """Draw a random number."""
        return Step(self.name, ("ok",), (f"{self.name}_{pick(chooser, 'ui')}:0",))


class SessionTensors(Resource):
    """Tensors in the session's store, whose handles are fetched, fed, read and deleted."""

    def __init__(self, name: str, chooser: Chooser) -> None:
        super().__init__(name, chooser)
        self._labels: list[str] = []

    def placeholders(self) -> dict[str, str]:
        """Return placeholders of a value and a handle."""
        return {f"{self.name}_x": "float32", f"{self.name}_h": "string"}

    def nodes(self) -> list[str]:
        """Return the ops of session handles."""
        n = self.name
        return [
            f"{n}_y = Square({n}_x)",
            f"{n}_keep = GetSessionHandle({n}_y)",
            f"{n}_get = GetSessionTensor({n}_h, dtype=float32)",
            f"{n}_more = AddV2({n}_get, {n}_get)",
            f"{n}_drop = DeleteSessionTensor({n}_h)",
        ]

    def draw(self, chooser: Chooser) -> Step:
        """Draw a step that stores a tensor, or one that uses an earlier handle."""
        n = self.name
        if not self._labels or chance(chooser, 3):
            label = f"{n}_{len(self._labels)}"
            self._labels.append(label)
            feed = (f"{n}_x:0", Value("float32", [float(chooser.integer(0, 9))] * 2))
            return Step(n, ("ok",), (f"{n}_keep:0",), (), (feed,), label)
        handle = Handle(pick(chooser, self._labels) if chance(chooser, 8) else self._labels[-1])
        if chance(chooser, 4):
            return Step(n, ("drop",), (), (f"{n}_drop",), ((f"{n}_h:0", handle),))
        if chance(chooser, 8):
            wrong = Value("string", b"no handle")
            return Step(n, ("wrong",), (f"{n}_get:0",), (), ((f"{n}_h:0", wrong),))
        return Step(n, ("get",), (f"{n}_more:0",), (), ((f"{n}_h:0", handle),))
