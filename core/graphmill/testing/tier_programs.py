"""Small programs that put a node in each context that a compiler handles differently.

    program = PROGRAMS["While body"]
    graph_def = program.graph_def(host.ops, op="Mine>Act")

Each program applies an op to `x` a given number of times; the op is `Neg` by default.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from graphmill.testing.case_graph import GraphMaker
from graphmill.testing.case_inputs import parse_input
from graphmill.testing.case_nodes import parse_function, parse_node

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.ops.definition.op_registry import OpRegistry

_STAND_IN: Final = "Neg"
_APPLIED: Final = ("a", "b")  # names of the nodes whose op is replaced
_FEEDS: Final[dict[str, Any]] = {"x": 2.0, "i": 0, "n": 2, "p": True}
_TYPES: Final = {"x": "float32: 2", "i": "int32: 0", "n": "int32: 2", "p": "bool: True"}


@dataclass(frozen=True, slots=True)
class TierProgram:
    """A graph that applies an op in one context.

    Attributes:
        nodes: its nodes, as in op cases.
        functions: the functions of its library.
        fetch: the tensor of its result.
        calls: how often the op runs in a step.
    """

    nodes: tuple[str, ...]
    functions: tuple[str, ...] = ()
    fetch: str = "y:0"
    calls: int = 2

    @property
    def feeds(self) -> dict[str, Any]:
        """The feeds, by tensor name."""
        return {f"{name}:0": value for name, value in _FEEDS.items()}

    def graph_def(self, ops: OpRegistry, op: str = _STAND_IN, device: str = "") -> Any:
        """Return the graph.

        Args:
            ops: the OpDefs of its nodes.
            op: the op to apply: from one float32 input to one float32 output, without attrs.
            device: the device of all nodes; empty leaves it to placement.
        """
        definition = graph_def(ops, self.nodes, self.functions, _TYPES)
        bodies = [definition.node, *(function.node_def for function in definition.library.function)]
        for node in (node for body in bodies for node in body):
            if node.op != "Placeholder":
                node.device = device
            if op != _STAND_IN and node.name in _APPLIED:
                node.op = op
                node.attr.clear()
        return definition


def graph_def(
    ops: OpRegistry, nodes: tuple[str, ...], functions: tuple[str, ...], fed: Mapping[str, str]
) -> Any:
    """Return a graph of placeholders and nodes, written as in op cases."""
    maker = GraphMaker(ops)
    for name, value in fed.items():
        maker.placeholder(name, parse_input(value, {}, name))
    for text in functions:
        maker.function(parse_function(text, {}))
    for text in nodes:
        maker.node(parse_node(text, {}))
    return maker.graph_def


_TWICE = "a = Neg(x); b = Neg(x); y = AddV2(a, b)"
_FUNCTION = f"f(x: float32) -> (float32): {_TWICE}; return y"
_IDENTITY = "g(x: float32) -> (float32): y = Identity(x); return y"
_CALL = "PartitionedCall([{}], Tout=[float32], f=f)"
_LESS = (
    "less(i: int32, x: float32) -> (bool): n = Const(dtype=int32, value='int32: 2'); "
    "y = Less(i, n); return y"
)
_BODY = (
    "body(i: int32, x: float32) -> (int32, float32): "
    f"one = Const(dtype=int32, value='int32: 1'); j = AddV2(i, one); {_TWICE}; return j, y"
)
_LOOP = (
    *("ei = Enter(i, frame_name='f')", "ex = Enter(x, frame_name='f')"),
    *("en = Enter(n, frame_name='f', is_constant=True)", "mi = Merge([ei, ni])"),
    *("mx = Merge([ex, nx])", "less = Less(mi, en)", "go = LoopCond(less)"),
    *("si = Switch(mi, go)", "sx = Switch(mx, go)", "bi = Identity(si[1])"),
    *("one = Const(dtype=int32, value='int32: 1', after=[bi])", "ji = AddV2(bi, one)"),
    *("a = Neg(sx[1])", "b = Neg(sx[1])", "jx = AddV2(a, b)"),
    *("ni = NextIteration(ji)", "nx = NextIteration(jx)", "yx = Exit(sx[0])"),
)
PROGRAMS: Final[dict[str, TierProgram]] = {
    "graph": TierProgram(tuple(_TWICE.split("; "))),
    "function": TierProgram((f"y = {_CALL.format('x')}",), (_FUNCTION,)),
    "two calls": TierProgram(
        (f"u = {_CALL.format('x')}", f"y = {_CALL.format('u')}"), (_FUNCTION,), calls=4
    ),
    "If branch": TierProgram(
        ("y = If(p, [x], Tin=[float32], Tout=[float32], then_branch=f, else_branch=g)",),
        (_FUNCTION, _IDENTITY),
    ),
    "While body": TierProgram(
        ("w = While([i, x], T=[int32, float32], cond=less, body=body)",), (_LESS, _BODY), "w:1", 4
    ),
    "v1 loop": TierProgram(_LOOP, fetch="yx:0", calls=4),
}
"""The programs, by the context of the op."""
