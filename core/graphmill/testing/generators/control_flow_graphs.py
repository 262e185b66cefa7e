"""Generate random graphs with loops, conditionals and dead branches, in TensorFlow's primitives.

Unlike `control_flow_programs`, which builds programs as users do, this module draws the nodes
themselves. So it also generates graphs that no builder creates: values that leave a branch without
a `Merge` and may be dead, control edges between sibling branches or with the surrounding nodes,
`ControlTrigger`s that wait for dead nodes, and loops that do not start because a value is dead.

A graph consists of regions. All values of a region are live, or all are dead. So no `Merge` has two
live inputs, and no loop has both live and dead variables: the result does not depend on the order
in which nodes run. Values that may be dead while their region is live are `maybe_dead`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import numpy as np

from graphmill import dtypes
from graphmill.graph.graph import Graph
from graphmill.ops.attrs.attr_types import ShapeAttr, TensorAttr
from graphmill.testing.generators.dataflow_graphs import HypothesisChooser, SeededChooser

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.graph.node import Node
    from graphmill.ops.definition.op_registry import OpRegistry
    from graphmill.testing.generators.dataflow_graphs import Chooser

_T = TypeVar("_T")
_Output: TypeAlias = "tuple[Node, int]"

_MODULUS: Final = 97  # keeps values small
_MAX_TRIPS: Final = 4
_MAX_NODES: Final = 160
_UNARY: Final = ("Identity", "Neg", "Abs")
_BINARY: Final = ("AddV2", "Sub", "Maximum", "Minimum")
_COMPARISONS: Final = ("Less", "GreaterEqual", "NotEqual")


@dataclass(frozen=True, slots=True)
class StructuredGraph:
    """A graph with its feeds and fetches.

    Attributes:
        name: the call that generates it again.
        graph: the graph.
        feeds: values by tensor name.
        fetches: names of tensors outside of loops; they may be dead.
        start: the node to run first, in a step of its own; empty for none.
    """

    name: str
    graph: Graph
    feeds: dict[str, Any]
    fetches: tuple[str, ...]
    start: str = ""


@dataclass(slots=True)
class _Region:
    """The values that are in scope at one point of the graph.

    Attributes:
        depth: how much deeper loops and conditionals may nest.
        pivot: a node that is live exactly if the region is; None for the whole graph.
        values, flags: integers and bools that are live exactly if the region is.
        maybe_dead: integers that may be dead while the region is live.
        nodes: nodes of the frame that other nodes may wait for; live if the region is.
        maybe_dead_nodes: the same, but they may be dead.
        refs: references to the variable that are live exactly if the region is.
    """

    depth: int
    pivot: Node | None
    values: list[_Output] = field(default_factory=list)
    flags: list[_Output] = field(default_factory=list)
    maybe_dead: list[_Output] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    maybe_dead_nodes: list[Node] = field(default_factory=list)
    refs: list[_Output] = field(default_factory=list)


def structured_graph(
    seed: int,
    ops: OpRegistry,
    *,
    depth: int = 3,
    devices: Sequence[str] = (),
    references: bool = False,
) -> StructuredGraph:
    """Generate the graph of a seed.

    Args:
        seed: the seed.
        ops: the OpDefs of the nodes.
        depth: the maximum nesting depth of loops, conditionals and dead regions.
        devices: names of devices that nodes may request; empty for no requests.
        references: whether references to a variable also pass through loops and branches
            (`RefSwitch` and similar ops). This gives a different graph. References do not cross
            devices.
    """
    name = f"structured_graph({seed}, depth={depth}, references={references})"
    return _Maker(SeededChooser(seed), ops, devices, references).make(name, depth)


def structured_graphs(ops: OpRegistry, *, depth: int = 2) -> Any:
    """Return the Hypothesis strategy of structured graphs."""
    from hypothesis import strategies as st

    @st.composite
    def draw_graph(draw: Any) -> StructuredGraph:
        return _Maker(HypothesisChooser(draw, st), ops, ()).make("drawn by Hypothesis", depth)

    return draw_graph()


class _Maker:
    """Generates one graph, statement by statement; each node is added after its inputs."""

    def __init__(
        self, chooser: Chooser, ops: OpRegistry, devices: Sequence[str], references: bool = False
    ) -> None:
        self._chooser = chooser
        self._references = references
        self._ops = ops
        self._devices = devices
        self._graph = Graph()

    def make(self, name: str, depth: int) -> StructuredGraph:
        root = _Region(depth, None)
        feeds: dict[str, Any] = {}
        for index in range(2):
            node = self._add("Placeholder", (), dtype=dtypes.int32)
            feeds[f"{node.name}:0"] = np.int32(self._integer(-4, 20))
            root.values.append((node, 0))
            root.nodes.append(node)
            if not index:
                flag = self._add("Placeholder", (), dtype=dtypes.bool)
                feeds[f"{flag.name}:0"] = np.bool_(self._integer(0, 1))
                root.flags.append((flag, 0))
        start = self._add_variable(root) if self._references else ""
        self.fill(root, self._integer(2, 7))
        fetched = self._some(root.values[2:], 1, 3) + self._some(root.maybe_dead, 0, 3)
        names = [f"{node.name}:{output}" for node, output in fetched]
        return StructuredGraph(name, self._graph, feeds, tuple(dict.fromkeys(names)), start)

    def _add_variable(self, root: _Region) -> str:
        variable = self._add("VariableV2", (), dtype=dtypes.int32, shape=ShapeAttr(()))
        value = self._constant(self._integer(1, 9), root)
        root.refs.append((variable, 0))
        return self._add("Assign", [(variable, 0), (value, 0)]).name

    # ---------------------------------------------------------------------------------- statements

    def fill(self, region: _Region, count: int) -> None:
        """Add statements."""
        self.calculate(region)
        for _ in range(count):
            flat = len(self._graph) > _MAX_NODES or not region.depth
            statements = _FLAT if flat else _ALL
            if region.refs:
                statements = (*statements, *(_FLAT_REFS if flat else _REFS))
            self._pick(statements)(self, region)

    def calculate(self, region: _Region) -> None:
        """Add a calculation."""
        kind = self._integer(0, 5)
        if kind == 0:
            self._value(region, self._constant(self._integer(-3, 9), region))
        elif kind == 1:
            self._value(region, self._op(region, self._pick(_UNARY), self._pick(region.values)))
        elif kind == 2:
            a, b = self._pick(region.values), self._pick(region.values)
            node = self._op(region, self._pick(_COMPARISONS), a, b)
            region.flags.append((node, 0))
            region.nodes.append(node)
        else:
            a, b = self._pick(region.values), self._pick(region.values)
            self._value(region, self._op(region, self._pick(_BINARY), a, b))

    def calculate_maybe_dead(self, region: _Region) -> None:
        """Add a calculation with a value that may be dead."""
        if region.maybe_dead:
            a, b = self._pick(region.maybe_dead), self._pick(region.values + region.maybe_dead)
            node = self._op(region, self._pick(_BINARY), a, b)
            region.maybe_dead.append((node, 0))
            region.maybe_dead_nodes.append(node)

    def wait(self, region: _Region) -> None:
        """Add control edges to a value; those from possibly dead nodes go through a trigger."""
        if not region.nodes:
            return
        after = self._some(region.nodes, 1, 3)
        if region.maybe_dead_nodes and self._integer(0, 3):
            after = [self._add("ControlTrigger", (), [*after, self._pick(region.maybe_dead_nodes)])]
        elif self._integer(0, 1):
            after = [self._add("NoOp", (), after)]
        self._value(region, self._add("Identity", [self._pick(region.values)], after))

    def wait_for_dead(self, region: _Region) -> None:
        """Add a control edge from a node that may be dead, so the value may be dead too."""
        if region.maybe_dead_nodes:
            after = [self._pick(region.maybe_dead_nodes)]
            node = self._add("Identity", [self._pick(region.values)], after)
            region.maybe_dead.append((node, 0))

    def branch(self, region: _Region) -> None:
        """Add a conditional; one of its branches is dead."""
        flag = self._flag(region)
        switches = [
            self._add("Switch", [value, flag], self._after(region))
            for value in self._some(region.values, 1, 3)
        ]
        region.nodes += switches
        branches = []
        for side in (0, 1):
            pivot = self._add("Identity", [(switches[0], side)])
            values = [(switch, side) for switch in switches]
            inner = _Region(region.depth - 1, pivot, values, nodes=[pivot, *region.nodes])
            self.fill(inner, self._integer(0, 4))
            branches.append(inner)
        for _ in range(self._integer(1, 2)):
            merge = self._merge([self._pick(inner.values) for inner in branches], region)
            region.values += [(merge, 0), (merge, 1)]
            region.nodes.append(merge)
        self._leak(self._pick(branches), region)

    def read(self, region: _Region) -> None:
        """Read the variable."""
        self._value(region, self._op(region, "Identity", self._pick(region.refs)))

    def branch_of_refs(self, region: _Region) -> None:
        """Add a conditional that passes a reference."""
        switch = self._add("RefSwitch", [self._pick(region.refs), self._flag(region)])
        region.nodes.append(switch)
        ends: list[_Output] = []
        for side in (0, 1):
            pivot = self._add("Identity", [(switch, side)])
            inner = _Region(region.depth - 1, pivot, [(pivot, 0)], refs=[(switch, side)])
            inner.nodes += [pivot, *region.nodes]
            self.fill(inner, self._integer(0, 3))
            ends.append(self._pick(inner.refs))
        merge = self._add("RefMerge", ends, self._after(region))
        region.refs.append((merge, 0))
        self._value(region, merge)
        region.values[-1] = (merge, 1)

    def loop_of_refs(self, region: _Region) -> None:
        """Add a loop whose variable is a reference."""
        name = f"frame{len(self._graph)}".encode()
        shared: dict[str, Any] = {"frame_name": name, "parallel_iterations": self._integer(1, 3)}
        trips = self._modulo(self._pick(region.values), _MAX_TRIPS + 1, region)
        zero, ref = self._constant(0, region), self._gated_ref(self._pick(region.refs), region)
        limit = self._add("Enter", [(trips, 0)], is_constant=True, **shared)
        count = self._add("Enter", [(zero, 0)], **shared)
        counted = self._add("Merge", [(count, 0), (count, 0)])
        enter = self._add("RefEnter", [ref], **shared)
        merge = self._add("RefMerge", [(enter, 0), (enter, 0)])
        less = self._add("Less", [(counted, 0), (limit, 0)])
        condition = (self._add("LoopCond", [(less, 0)]), 0)
        counts = self._add("Switch", [(counted, 0), condition])
        refs = self._add("RefSwitch", [(merge, 0), condition])
        pivot = self._add("Identity", [(counts, 1)])
        body = _Region(region.depth - 1, pivot, [(counts, 1)], refs=[(refs, 1)], nodes=[pivot])
        self.fill(body, self._integer(0, 3))
        one = (self._constant(1, body), 0)
        following = self._add("NextIteration", [(self._op(body, "AddV2", (counts, 1), one), 0)])
        self._graph.replace_input(counted, 1, following, 0)
        again = self._add("RefNextIteration", [self._pick(body.refs)])
        self._graph.replace_input(merge, 1, again, 0)
        region.refs.append((self._add("RefExit", [(refs, 0)]), 0))
        self._value(region, self._add("Exit", [(counts, 0)]))

    def _gated_ref(self, ref: _Output, region: _Region) -> _Output:
        after = [] if region.pivot is None else [region.pivot]
        return self._add("RefIdentity", [ref], after), 0

    def _leak(self, inner: _Region, region: _Region) -> None:
        """Make values of a branch available outside, where they may be dead."""
        if self._integer(0, 3):
            region.maybe_dead += self._some(inner.values + inner.maybe_dead, 1, 2)
            if inner.pivot is not None:
                region.maybe_dead_nodes.append(inner.pivot)

    def gate(self, region: _Region) -> None:
        """Add a region that is dead if a value that may be dead is."""
        if not region.maybe_dead:
            return
        pivot = self._add("Identity", [self._pick(region.maybe_dead)])
        inner = _Region(region.depth - 1, pivot, [(pivot, 0)], nodes=[pivot, *region.nodes])
        for value in self._some(region.values, 1, 2):
            inner.values.append((self._add("Identity", [value], [pivot]), 0))
        self.fill(inner, self._integer(1, 3))
        region.maybe_dead += self._some(inner.values, 1, 2)
        region.maybe_dead_nodes.append(pivot)

    def loop(self, region: _Region) -> None:
        """Add a loop."""
        name = f"frame{len(self._graph)}".encode()
        shared: dict[str, Any] = {
            "frame_name": name,
            "parallel_iterations": self._pick((1, 2, 3, 10)),
        }
        starts = [self._gated(value, region) for value in self._some(region.values, 1, 2)]
        starts.insert(0, (self._constant(0, region), 0))
        enters = [self._add("Enter", [start], self._after(region), **shared) for start in starts]
        captured = [
            self._add("Enter", [self._gated(value, region)], is_constant=True, **shared)
            for value in self._some(region.values, 0, 2)
        ]
        # Both inputs are the first one for now; the back edges are added when the body is built.
        merges = [self._add("Merge", [(enter, 0), (enter, 0)]) for enter in enters]
        test = _Region(region.depth - 1, merges[0], [(node, 0) for node in (*merges, *captured)])
        test.nodes += [*merges, *captured]
        self.fill(test, self._integer(0, 2))
        limit = self._modulo(self._pick(test.values), _MAX_TRIPS + 1, test)
        less = self._op(test, "Less", (merges[0], 0), (limit, 0))
        condition = (self._add("LoopCond", [(less, 0)]), 0)
        switches = [self._add("Switch", [(merge, 0), condition]) for merge in merges]
        self._body(switches, merges, captured, test)
        for switch in switches:
            leaving = self._add("Exit", [(switch, 0)])
            region.values.append((leaving, 0))
            region.nodes.append(leaving)

    def _body(
        self,
        switches: Sequence[Node],
        merges: Sequence[Node],
        captured: Sequence[Node],
        test: _Region,
    ) -> None:
        pivot = self._add("Identity", [(switches[0], 1)])
        values = [(switch, 1) for switch in switches]
        body = _Region(test.depth, pivot, values, nodes=[pivot, *test.nodes])
        for node in captured:
            body.values.append((self._add("Identity", [(node, 0)], [pivot]), 0))
        self.fill(body, self._integer(1, 4))
        one = (self._constant(1, body), 0)
        results = [self._op(body, "AddV2", (switches[0], 1), one)]
        results += [self._modulo(self._pick(body.values), _MODULUS, body) for _ in merges[1:]]
        for merge, result in zip(merges, results, strict=True):
            following = self._add("NextIteration", [(result, 0)])
            self._graph.replace_input(merge, 1, following, 0)

    # --------------------------------------------------------------------------------------- nodes

    def _value(self, region: _Region, node: Node) -> None:
        region.values.append((node, 0))
        region.nodes.append(node)

    def _flag(self, region: _Region) -> _Output:
        if not region.flags:
            a, b = self._pick(region.values), self._pick(region.values)
            region.flags.append((self._op(region, self._pick(_COMPARISONS), a, b), 0))
        return self._pick(region.flags)

    def _merge(self, inputs: Sequence[_Output], region: _Region) -> Node:
        return self._add("Merge", inputs, self._after(region))

    def _gated(self, value: _Output, region: _Region) -> _Output:
        """Return a value that is dead whenever its region is dead."""
        if region.pivot is None:
            return value
        return self._add("Identity", [value], [region.pivot]), 0

    def _modulo(self, value: _Output, modulus: int, region: _Region) -> Node:
        return self._op(region, "FloorMod", value, (self._constant(modulus, region), 0))

    def _constant(self, number: int, region: _Region) -> Node:
        after = [] if region.pivot is None else [region.pivot]
        value = TensorAttr(np.array(number, np.int32))
        return self._add("Const", (), after, dtype=dtypes.int32, value=value)

    def _op(self, region: _Region, op: str, *inputs: _Output) -> Node:
        return self._add(op, inputs, self._after(region))

    def _after(self, region: _Region) -> list[Node]:
        """Return, with some probability, a node to wait for."""
        return [self._pick(region.nodes)] if region.nodes and not self._integer(0, 5) else []

    def _add(
        self, op: str, inputs: Sequence[_Output], after: Sequence[Node] = (), **attrs: Any
    ) -> Node:
        op_def = self._ops.get(op)
        if op_def.has_attr("T") and inputs:
            attrs["T"] = inputs[0][0].output_types[inputs[0][1]].base_dtype
        if op in ("Merge", "RefMerge"):
            attrs["N"] = len(inputs)
        name = f"n{len(self._graph)}_{op}"
        device = self._pick(self._devices) if self._devices else ""
        complete = op_def.with_defaults(attrs)
        return self._graph.add_node(name, op_def, inputs, after, complete, device)

    # ------------------------------------------------------------------------------------- choices

    def _integer(self, low: int, high: int) -> int:
        return self._chooser.integer(low, high)

    def _pick(self, items: Sequence[_T]) -> _T:
        return items[self._integer(0, len(items) - 1)]

    def _some(self, items: Sequence[_T], low: int, high: int) -> list[_T]:
        count = self._integer(low, high) if items else 0
        return list(dict.fromkeys(self._pick(items) for _ in range(count)))


_FLAT: Final[tuple[Callable[[_Maker, _Region], None], ...]] = (
    _Maker.calculate,
    _Maker.calculate,
    _Maker.wait,
    _Maker.calculate_maybe_dead,
    _Maker.wait_for_dead,
)
_NESTING: Final = (_Maker.branch, _Maker.branch, _Maker.gate, _Maker.gate, _Maker.loop)
_ALL: Final = (*_FLAT, *_NESTING, _Maker.loop)
_FLAT_REFS: Final = (_Maker.read, _Maker.read)
_REFS: Final = (*_FLAT_REFS, _Maker.branch_of_refs, _Maker.loop_of_refs)
