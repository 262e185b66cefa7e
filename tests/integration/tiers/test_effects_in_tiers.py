"""Nodes with effects run once each, in each step: interpreted, compiled, in functions and loops."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import graphmill
from graphmill.testing.case_graph import GraphMaker
from graphmill.testing.case_inputs import parse_input
from graphmill.testing.case_nodes import parse_function, parse_node

pytestmark = pytest.mark.divided

TIERS: Final = ("off", "tiered", "eager")
STEPS: Final = 6  # a signature is compiled after the third one

TWICE = "a = {op}(x); b = {op}(x); y = AddV2(a, b)"
FUNCTION = f"f(x: float32) -> (float32): {TWICE}; return y"
UNREAD = "f(x: float32) -> (float32): a = {op}(x); y = Neg(x); return y"
CONDITION = "less(i: int32, x: float32) -> (bool): n = Const(dtype=int32, value='int32: 2'); "
CONDITION += "y = Less(i, n); return y"
BODY = "body(i: int32, x: float32) -> (int32, float32): one = Const(dtype=int32, value='int32: 1')"
BODY += f"; j = AddV2(i, one); {TWICE}; return j, y"
BODY_UNREAD = BODY.replace(TWICE, "a = {op}(x); b = {op}(x); y = Neg(x)")
WHILE = "w = {loop}([i, x], T=[int32, float32], cond=less, body=body)"
LOOP: Final = (
    "ei = Enter(i, frame_name='f')",
    "ex = Enter(x, frame_name='f')",
    "en = Enter(n, frame_name='f', is_constant=True)",
    "mi = Merge([ei, ni])",
    "mx = Merge([ex, nx])",
    "less = Less(mi, en)",
    "go = LoopCond(less)",
    "si = Switch(mi, go)",
    "sx = Switch(mx, go)",
    "bi = Identity(si[1])",
    "one = Const(dtype=int32, value='int32: 1', after=[bi])",
    "ji = AddV2(bi, one)",
    "a = {op}(sx[1])",
    "b = {op}(sx[1])",
    "jx = AddV2(a, b)",
    "ni = NextIteration(ji)",
    "nx = NextIteration(jx)",
    "yx = Exit(sx[0])",
)
# What is in the graph, its functions and nodes; its fetch; and how often the op runs in a step.
PROGRAMS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...], str, int]]] = {
    "graph": ((), tuple(TWICE.split("; ")), "y:0", 2),
    "PartitionedCall": (
        (FUNCTION,),
        ("y = PartitionedCall([x], Tout=[float32], f=f)",),
        "y:0",
        2,
    ),
    "unread in a call": (
        (UNREAD,),
        ("y = PartitionedCall([x], Tout=[float32], f=f)",),
        "y:0",
        1,
    ),
    "two calls": (
        (FUNCTION,),
        (
            "a = PartitionedCall([x], Tout=[float32], f=f)",
            "b = PartitionedCall([x], Tout=[float32], f=f)",
            "y = AddV2(a, b)",
        ),
        "y:0",
        4,
    ),
    "If": (
        (FUNCTION, "g(x: float32) -> (float32): y = Neg(x); return y"),
        ("y = If(p, [x], Tin=[float32], Tout=[float32], then_branch=f, else_branch=g)",),
        "y:0",
        2,
    ),
    "While": ((CONDITION, BODY), (WHILE.format(loop="While"),), "w:1", 4),
    "unread in a While": ((CONDITION, BODY_UNREAD), (WHILE.format(loop="While"),), "w:1", 4),
    "v1 loop": ((), LOOP, "yx:0", 4),
}


class Plugin:
    """Third-party ops whose effects the op or the kernel declares."""

    def __init__(self, effect: str, declared_by: str) -> None:
        self.calls = 0
        by_op = [effect] if declared_by == "op" else None
        by_kernel = [effect] if declared_by == "kernel" else ()

        @graphmill.op("Mine>Act", outputs=("y",), effects=by_op)
        @graphmill.kernel("Mine>Act", effects=by_kernel)
        def act(xp: Any, x: graphmill.float32) -> graphmill.float32:
            self.calls += 1
            return x + np.float32(1)

        self.act = act

    @graphmill.hookimpl
    def graphmill_register_ops(self, ops: Any) -> None:
        ops.add(self.act)

    @graphmill.hookimpl
    def graphmill_register_kernels(self, kernels: Any) -> None:
        kernels.add(self.act)


def graph_def(program: str, host: graphmill.Host) -> Any:
    """Return a graph; nodes of the plugin's op are written as `Neg` and then renamed."""
    functions, nodes, _, _ = PROGRAMS[program]
    maker = GraphMaker(host.ops)
    feeds = {"x": "float32: 2", "i": "int32: 0", "n": "int32: 2", "p": "bool: True"}
    for name, value in feeds.items():
        maker.placeholder(name, parse_input(value, {}, name))
    for text in functions:
        maker.function(parse_function(text.format(op="Neg"), {}))
    for text in nodes:
        maker.node(parse_node(text.format(op="Neg"), {}))
    bodies = [function.node_def for function in maker.graph_def.library.function]
    for node in (node for body in (maker.graph_def.node, *bodies) for node in body):
        if node.op == "Neg" and node.name in ("a", "b"):
            node.op = "Mine>Act"
            node.attr.clear()
    return maker.graph_def


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("declared_by", ["op", "kernel"])
@pytest.mark.parametrize("effect", ["clock", "rng", "log"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_node_with_effects_runs_once_in_its_place(
    program: str, effect: str, declared_by: str, tier: str
) -> None:
    plugin = Plugin(effect, declared_by)
    host = graphmill.Host(plugins=[plugin])
    _, _, fetch, count = PROGRAMS[program]
    config = {"graphmill": {"jit": tier, "jit_min_cluster_size": 1}}
    feeds = {"x:0": 2.0, "i:0": 0, "n:0": 2, "p:0": True}
    with graphmill.Session(graph=graph_def(program, host), config=config, host=host) as session:
        for step in range(1, STEPS + 1):
            session.run(fetch, feeds)
            assert plugin.calls == step * count
            host.background.wait_idle(30)
            assert plugin.calls == step * count  # nor was it called to compile anything
