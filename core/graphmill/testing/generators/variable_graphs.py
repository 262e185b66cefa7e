"""Generate random graphs of variable reads, assignments and training ops in a fixed order.

The result of a step does not depend on the order in which nodes run, because each access to a
variable waits for the previous one. Some graphs access a variable through two handles. Some assign
the result of a v1 conditional.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from graphmill.testing.case_graph import GraphMaker
from graphmill.testing.case_inputs import Input
from graphmill.testing.case_nodes import parse_node
from graphmill.testing.generators.dataflow_graphs import SeededChooser

if TYPE_CHECKING:
    from graphmill.ops.definition.op_registry import OpRegistry

_NUM_VARIABLES: Final = 2
_UPDATES: Final = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")
_REF_UPDATES: Final = ("Assign", "AssignAdd", "AssignSub")
_UNARY: Final = ("Neg", "Tanh", "Sigmoid", "Square")
_BINARY: Final = ("AddV2", "Mul", "Maximum")


@dataclass(frozen=True, slots=True)
class VariableGraph:
    """A graph with variables.

    Attributes:
        name: the call that generates it again.
        graph_def: the graph.
        feeds: values by tensor name.
        fetches: names of tensors.
        start: the node to run first, in a step of its own.
        targets: the nodes to run in each step.
    """

    name: str
    graph_def: Any
    feeds: dict[str, Any]
    fetches: tuple[str, ...]
    start: str
    targets: tuple[str, ...]


def variable_graph(seed: int, ops: OpRegistry, statements: int = 8) -> VariableGraph:
    """Generate the graph of a seed.

    Args:
        seed: the seed.
        ops: the OpDefs of the nodes.
        statements: the number of reads, updates and calculations.
    """
    return _Maker(seed, ops).make(statements)


class _Maker:
    def __init__(self, seed: int, ops: OpRegistry) -> None:
        self._seed = seed
        self._chooser = SeededChooser(seed)
        self._graph = GraphMaker(ops)
        self._count = 0
        self._values = ["x"]
        self._reads: list[str] = []
        self._last: dict[int, str] = {}
        self._is_ref = [bool(self._chooser.integer(0, 1)) for _ in range(_NUM_VARIABLES)]

    def make(self, statements: int) -> VariableGraph:
        self._graph.placeholder("x", Input("float32", (2, 3), "-2..2", self._seed))
        self._graph.placeholder("yes", Input("bool", (), "", self._seed))
        starts = [self._variable(index) for index in range(_NUM_VARIABLES)]
        self._add("NoOp", name="start", after=starts)
        for _ in range(statements):
            steps = (self._calculate, self._read, self._update, self._train, self._choose)
            self._pick(steps)()
        for index in range(_NUM_VARIABLES):
            self._read(index)
        self._add("NoOp", name="all", after=sorted(set(self._last.values())))
        fetches = tuple(f"{name}:0" for name in dict.fromkeys([*self._reads, self._values[-1]]))
        finished = self._graph.finish([], all_outputs=False)
        name = f"variable_graph({self._seed})"
        return VariableGraph(name, finished.graph_def, finished.feeds, fetches, "start", ("all",))

    def _variable(self, index: int) -> str:
        value = self._add("Const", dtype="float32", value=f"'float32[2,3] fill {index + 1}'")
        attrs: dict[str, Any] = {"dtype": "float32", "shape": "[2, 3]"}
        if self._is_ref[index]:
            self._add("VariableV2", name=f"v{index}", **attrs)
            return self._add("Assign", f"v{index}", value)
        self._add("VarHandleOp", name=f"v{index}", shared_name=f"'v{index}'", **attrs)
        self._add("VarHandleOp", name=f"w{index}", shared_name=f"'v{index}'", **attrs)
        return self._add("AssignVariableOp", f"v{index}", value)

    def _calculate(self) -> None:
        if self._chooser.integer(0, 1):
            value = self._add(self._pick(_UNARY), self._pick(self._values))
        else:
            value = self._add(self._pick(_BINARY), self._pick(self._values), self._small())
        self._values.append(value)

    def _small(self) -> str:
        """Return a value between -1 and 1, so that values do not grow without bounds."""
        return self._add("Tanh", self._pick(self._values))

    def _read(self, index: int | None = None) -> None:
        index = self._chooser.integer(0, _NUM_VARIABLES - 1) if index is None else index
        if self._is_ref[index]:
            read = self._access(index, "Identity", self._handle(index))
        else:
            read = self._access(index, "ReadVariableOp", self._handle(index), dtype="float32")
        self._values.append(read)
        self._reads.append(read)

    def _update(self) -> None:
        index = self._chooser.integer(0, _NUM_VARIABLES - 1)
        updates = _REF_UPDATES if self._is_ref[index] else _UPDATES
        self._access(index, self._pick(updates), self._handle(index), self._small())

    def _train(self) -> None:
        index = self._chooser.integer(0, _NUM_VARIABLES - 1)
        rate = self._add("Const", dtype="float32", value="'float32: 0.125'")
        op = "ApplyGradientDescent" if self._is_ref[index] else "ResourceApplyGradientDescent"
        self._access(index, op, self._handle(index), rate, self._small())

    def _choose(self) -> None:
        """Assign the result of a conditional with one computing branch."""
        switch = self._add("Switch", self._pick(self._values), "yes")
        other = self._add(self._pick(_UNARY), f"{switch}[1]")
        merge = self._add("Merge", f"[{switch}, {other}]")
        self._values.append(merge)
        self._update()

    def _handle(self, index: int) -> str:
        is_other = not self._is_ref[index] and self._chooser.integer(0, 1)
        return f"{'w' if is_other else 'v'}{index}"

    def _access(self, index: int, op: str, *inputs: str, **attrs: str) -> str:
        after = [self._last[index]] if index in self._last else []
        node = self._last[index] = self._add(op, *inputs, after=after, **attrs)
        return node

    def _add(
        self, op: str, *inputs: str, name: str = "", after: list[str] | None = None, **attrs: Any
    ) -> str:
        self._count += 1
        name = name or f"n{self._count}"
        arguments = [*inputs, *(f"{key}={value}" for key, value in attrs.items())]
        if after:
            arguments.append(f"after=[{', '.join(after)}]")
        self._graph.node(parse_node(f"{name} = {op}({', '.join(arguments)})", {}))
        return name

    def _pick(self, items: Any) -> Any:
        return items[self._chooser.integer(0, len(items) - 1)]
