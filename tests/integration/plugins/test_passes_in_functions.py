"""Plugin passes run once on each function body, whoever calls it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest

import graphmill
from graphmill.testing.case_graph import GraphMaker
from graphmill.testing.case_inputs import parse_input
from graphmill.testing.case_nodes import parse_function, parse_node

if TYPE_CHECKING:
    from graphmill.graph.graph import Graph
    from graphmill.lowering.passes import PassOptions

pytestmark = pytest.mark.divided

TIERS: Final = ("off", "tiered", "eager")
PHASES: Final = ("PRE_PLACEMENT", "POST_PLACEMENT", "POST_REWRITE_FOR_EXEC", "POST_PARTITIONING")
STEPS: Final = 6  # a signature is compiled after the third one

CLIP = "clip(x: float32) -> (float32): y = Relu(x); return y"
NEGATE = "negate(x: float32) -> (float32): y = Neg(x); return y"
OUTER = "outer(x: float32) -> (float32): y = PartitionedCall([x], Tout=[float32], f=clip); return y"
LESS = "less(i: int32, x: float32) -> (bool): n = Const(dtype=int32, value='int32: 2'); "
LESS += "y = Less(i, n); return y"
STEP = "step(i: int32, x: float32) -> (int32, float32): one = Const(dtype=int32, value='int32: 1')"
STEP += "; j = AddV2(i, one); y = Relu(x); return j, y"
CHOICE = "[x], Tin=[float32], Tout=[float32], then_branch=clip, else_branch=negate"
CHOOSE = f"z = Less(j, one); p = LogicalNot(z); y = If(p, {CHOICE})"
STEP_WITH_IF = STEP.replace("y = Relu(x)", CHOOSE)
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
    "jx = {step}",
    "ni = NextIteration(ji)",
    "nx = NextIteration(jx)",
    "y = Exit(sx[0])",
)
DATASET: Final = (
    "d = TensorDataset([x], Toutput_types=[float32], output_shapes=[[]])",
    "e = MapDataset(d, [], f=clip, Targuments=[], output_types=[float32], output_shapes=[[]])",
    "y = DatasetToSingleElement(e, output_types=[float32], output_shapes=[[]])",
)
# Functions, nodes, the fetch, and how often `Relu` is computed in a step.
PROGRAMS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...], str, int]]] = {
    "graph": ((), ("y = Relu(x)",), "y:0", 1),
    "PartitionedCall": ((CLIP,), ("y = PartitionedCall([x], Tout=[float32], f=clip)",), "y:0", 1),
    "nested calls": (
        (CLIP, OUTER),
        ("y = PartitionedCall([x], Tout=[float32], f=outer)",),
        "y:0",
        1,
    ),
    "If": ((CLIP, NEGATE), (f"y = If(p, {CHOICE})",), "y:0", 1),
    "StatelessIf": ((CLIP, NEGATE), (f"y = StatelessIf(p, {CHOICE})",), "y:0", 1),
    "While": (
        (LESS, STEP),
        ("w = While([i, x], T=[int32, float32], cond=less, body=step)",),
        "w:1",
        2,
    ),
    "If in a While": (
        (LESS, STEP_WITH_IF, CLIP, NEGATE),
        ("w = While([i, x], T=[int32, float32], cond=less, body=step)",),
        "w:1",
        2,
    ),
    "v1 loop": ((), tuple(node.format(step="Relu(sx[1])") for node in LOOP), "y:0", 2),
    "call in a v1 loop": (
        (CLIP,),
        tuple(
            node.format(step="PartitionedCall([sx[1]], Tout=[float32], f=clip)") for node in LOOP
        ),
        "y:0",
        2,
    ),
    "MapDataset": ((CLIP,), DATASET, "y:0", 1),
}


def to_relu6(graph: Graph, options: PassOptions) -> None:
    """Replace each `Relu` by a `Relu6`."""
    op_def = options.host.ops.get("Relu6")
    for node in [node for node in graph.nodes if node.op == "Relu"]:
        made = graph.add_node(f"{node.name}/six", op_def, node.sources, attrs=dict(node.attrs))
        made.assigned_device = node.assigned_device
        graph.redirect(node, 0, made, 0)
        graph.withdraw([node])


def double(graph: Graph, options: PassOptions) -> None:
    """Replace each use of a `Relu` by twice its value."""
    op_def = options.host.ops.get("AddV2")
    for node in [node for node in graph.nodes if node.op == "Relu"]:
        readers = [edge for edge in node.out_edges if not edge.is_control]
        attrs = dict(node.attrs)
        made = graph.add_node(f"{node.name}/twice", op_def, [(node, 0), (node, 0)], attrs=attrs)
        made.assigned_device = node.assigned_device
        for edge in readers:
            graph.replace_input(edge.dst, edge.dst_input, made, 0)


def host_with(graph_pass: Any, phase: str) -> graphmill.Host:
    class Plugin:
        @staticmethod
        @graphmill.hookimpl
        def graphmill_register_passes(passes: Any) -> None:
            passes.add("mine", graph_pass, phase=phase)

    return graphmill.Host(plugins=[Plugin])


def graph_def(program: str, host: graphmill.Host) -> Any:
    functions, nodes, _, _ = PROGRAMS[program]
    maker = GraphMaker(host.ops)
    feeds = {"x": "float32: 9", "i": "int32: 0", "n": "int32: 2", "p": "bool: True"}
    for name, value in feeds.items():
        maker.placeholder(name, parse_input(value, {}, name))
    for text in functions:
        maker.function(parse_function(text, {}))
    for text in nodes:
        maker.node(parse_node(text, {}))
    return maker.graph_def


def results(program: str, tier: str, graph_pass: Any, phase: str) -> list[float]:
    host = host_with(graph_pass, phase)
    config = {"graphmill": {"jit": tier, "jit_min_cluster_size": 1}}
    feeds = {"x:0": 9.0, "i:0": 0, "n:0": 2, "p:0": True}
    found = []
    with graphmill.Session(graph=graph_def(program, host), config=config, host=host) as session:
        for _ in range(STEPS):
            found.append(float(session.run(PROGRAMS[program][2], feeds)))
            host.background.wait_idle(30)
    return found


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_pass_replaces_an_op_in_functions(program: str, phase: str, tier: str) -> None:
    assert results(program, tier, to_relu6, phase) == [6.0] * STEPS


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_pass_sees_each_node_once(program: str, phase: str, tier: str) -> None:
    count = PROGRAMS[program][3]
    assert results(program, tier, double, phase) == [9.0 * 2**count] * STEPS
