"""Random ops of plugins are treated like TensorFlow's by gradients and datasets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

import graphmill
from graphmill import errors
from graphmill.ops.definition.effects import randomness_of
from graphmill.ops.definition.op_traits import OpTraits, Randomness
from graphmill.plugin.gradient_registry import NoGradientError
from graphmill.plugin.host import default_host
from graphmill.runtime.kernels.kernel import kernel
from graphmill.testing.case_graph import GraphMaker
from graphmill.testing.case_nodes import parse_function, parse_node
from graphmill.testing.fakes.third_party_plugin import ThirdPartyPlugin, float_op
from graphmill.testing.tier_programs import graph_def

pytestmark = pytest.mark.divided

TIERS: Final = ("off", "tiered", "eager")
STEPS: Final = 6
TENSORFLOWS: Final = "RandomUniform"
FOREIGN: Final = "Foreign>Random"
DECLARATIONS: Final = ("attrs", "trait", "trait beside effects", "op effects", "kernel effects")
SUPPLIERS: Final = (TENSORFLOWS, *DECLARATIONS)


def random_op(declared_by: str) -> graphmill.Host:
    """Return a host with a random op, declared in one of several ways."""
    drawn, none = frozenset({"rng"}), frozenset[str]()
    traits = {
        "attrs": OpTraits(),
        "trait": OpTraits(randomness=Randomness.SEEDED),
        "trait beside effects": OpTraits(effects=none, randomness=Randomness.SEEDED),
        "op effects": OpTraits(effects=drawn, randomness=Randomness.NONE),
        "kernel effects": OpTraits(effects=none, randomness=Randomness.NONE),
    }[declared_by]
    made_like = default_host().ops.get(TENSORFLOWS)
    op = replace(made_like, name=FOREIGN, family="", traits=traits)
    effects = drawn if declared_by == "kernel effects" else none

    @kernel(FOREIGN, stateful=True, host=True, effects=effects)
    class Generator:
        """A kernel with a generator seeded by its node."""

        def __init__(self, construction: Any) -> None:
            seeds = construction.attr("seed"), construction.attr("seed2")
            self._numbers = np.random.default_rng(seeds)

        def __call__(self, ctx: Any, shape: Any) -> Any:
            return self._numbers.random(tuple(shape), np.float32)

    return graphmill.Host(plugins=[ThirdPartyPlugin([op], [Generator])])


def host_of(supplier: str) -> graphmill.Host:
    return default_host() if supplier == TENSORFLOWS else random_op(supplier)


def renamed(message: Any, supplier: str) -> Any:
    """Replace TensorFlow's op by the plugin's, also in functions."""
    if supplier != TENSORFLOWS:
        for body in (message.node, *(function.node_def for function in message.library.function)):
            for node in body:
                if node.op == TENSORFLOWS:
                    node.op = FOREIGN
    return message


def session(message: Any, host: graphmill.Host, tier: str) -> graphmill.Session:
    config = {"graphmill": {"jit": tier, "jit_min_cluster_size": 1}}
    return graphmill.Session(graph=message, host=host, config=config)


DRAW: Final = (
    "s = Const(dtype=int32, value='int32[0]'); d = RandomUniform(s, dtype=float32, seed=3, seed2=4)"
)
FUNCTION: Final = f"f(x: float32) -> (float32): {DRAW}; y = Mul(x, d); return y"
OTHER: Final = "g(x: float32) -> (float32): y = Neg(x); return y"
CALLS: Final = {
    "call": "y = PartitionedCall([x], Tout=[float32], f=f)",
    "stateful call": "y = StatefulPartitionedCall([x], Tout=[float32], f=f)",
    "If": "y = If(p, [x], Tin=[float32], Tout=[float32], then_branch=f, else_branch=g)",
}
FED: Final = {"x": "float32: 2", "p": "bool: True", "i": "int32: 0", "n": "int32: 3"}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("supplier", SUPPLIERS)
def test_function_gradient_refuses_to_redraw(supplier: str, call: str) -> None:
    host = host_of(supplier)
    message = renamed(graph_def(host.ops, (CALLS[call],), (FUNCTION, OTHER), FED), supplier)
    graph = graphmill.Graph.from_graph_def(message, host.ops)
    with graph.as_default():
        x, y = graph.get_tensor_by_name("x:0"), graph.get_tensor_by_name("y:0")
        with pytest.raises(errors.UnimplementedError, match="different random numbers") as caught:
            graphmill.gradients(y, x, host=host)
    assert caught.value.op_type == (TENSORFLOWS if supplier == TENSORFLOWS else FOREIGN)


LOOP: Final = (
    *("ei = Enter(i, frame_name='f')", "ex = Enter(x, frame_name='f')"),
    *("en = Enter(n, frame_name='f', is_constant=True)", "mi = Merge([ei, ni])"),
    *("mx = Merge([ex, nx])", "less = Less(mi, en)", "go = LoopCond(less)"),
    *("si = Switch(mi, go)", "sx = Switch(mx, go)", "bi = Identity(si[1])"),
    *("one = Const(dtype=int32, value='int32: 1', after=[bi])", "ji = AddV2(bi, one)"),
    "s = Const(dtype=int32, value='int32[0]', after=[bi])",
    *("d = RandomUniform(s, dtype=float32, seed=3, seed2=4)", "jx = Mul(sx[1], d)"),
    *("ni = NextIteration(ji)", "nx = NextIteration(jx)", "y = Exit(sx[0])"),
)
PLACES: Final = {"graph": (*DRAW.split("; "), "y = Mul(x, d)"), "v1 loop": LOOP}


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("supplier", SUPPLIERS)
def test_gradient_has_the_numbers_of_the_forward_pass(supplier: str, place: str, tier: str) -> None:
    host = host_of(supplier)
    message = renamed(graph_def(host.ops, PLACES[place], (), FED), supplier)
    graph = graphmill.Graph.from_graph_def(message, host.ops)
    with graph.as_default():
        x, y = graph.get_tensor_by_name("x:0"), graph.get_tensor_by_name("y:0")
        (dx,) = graphmill.gradients(y, x, host=host)
    feeds = {"x:0": 2.0, "i:0": 0, "n:0": 3}
    drawn = []
    with session(graph, host, tier) as made:
        for _ in range(STEPS):
            made.run(y, feeds)  # alone: who draws on its own is ahead from now on
            value, slope = made.run([y, dx], feeds)
            assert slope == pytest.approx(value / 2)
            drawn.append(float(value))
            host.background.wait_idle()
    assert len(set(drawn)) == STEPS


def test_random_kernel_is_not_rerun_for_its_gradient() -> None:
    @kernel("Foreign>Noisy", effects=["rng"])
    def noisy(xp: Any, x: Any) -> Any:
        return xp.multiply(x, np.float32(np.random.default_rng().random()))

    host = graphmill.Host(plugins=[ThirdPartyPlugin([float_op("Foreign>Noisy")], [noisy])])
    graph = graphmill.Graph(ops=host.ops)
    with graph.as_default():
        x = graph.placeholder("float32", (), name="x")
        (y,) = graph.outputs_of(graph.create_op("Foreign>Noisy", [x]))
        with pytest.raises(NoGradientError, match="its gradient would repeat them: rng"):
            graphmill.gradients(y, x, host=host)


NUMBERS: Final = f"draw(x: int64) -> (float32): {DRAW}; return d"
NESTED: Final = (
    "nested(x: int64) -> (float32): "
    "y = StatefulPartitionedCall([x], Tin=[int64], Tout=[float32], f=draw); return y"
)
PIPELINE: Final = (
    "b = Const(dtype=int64, value='int64: 0')",
    "e = Const(dtype=int64, value='int64: 4')",
    "one = Const(dtype=int64, value='int64: 1')",
    "r = RangeDataset(b, e, one, output_types=[int64], output_shapes=[[]])",
    "m = MapDataset(r, [], f={f}, Targuments=[], output_types=[float32], output_shapes=[[]])",
    "it = IteratorV2(shared_name='', container='', output_types=[float32], output_shapes=[[]])",
    "start = MakeIterator(m, it)",
    "v = IteratorGetNext(it, output_types=[float32], output_shapes=[[]])",
    "w = AddV2(v, v)",
    "y = Mul(w, v)",
)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("function", ["draw", "nested"])
@pytest.mark.parametrize("supplier", SUPPLIERS)
def test_dataset_draws_the_same_numbers_with_each_iterator(
    supplier: str, function: str, tier: str
) -> None:
    host = host_of(supplier)
    maker = GraphMaker(host.ops)
    for text in (NUMBERS, NESTED):
        maker.function(parse_function(text, {}))
    for text in PIPELINE:
        maker.node(parse_node(text.replace("{f}", function), {}))
    with session(renamed(maker.graph_def, supplier), host, tier) as made:
        walks = []
        for _ in range(3):
            made.run("start")
            walks.append([float(made.run("y:0")) for _ in range(4)])
            host.background.wait_idle()
    assert walks[0] == walks[1] == walks[2]
    assert len(set(walks[0])) == 4


def test_attrs_declare_an_op_random() -> None:
    like = default_host().ops.get(TENSORFLOWS)
    op = replace(like, name="Foreign>A", family="", traits=OpTraits())
    assert randomness_of(op) is Randomness.SEEDED
    assert randomness_of(replace(op, is_stateful=False)) is Randomness.NONE
    assert (
        randomness_of(replace(op, traits=OpTraits(randomness=Randomness.NONE))) is Randomness.NONE
    )
    assert randomness_of(float_op("Foreign>B", is_stateful=True)) is Randomness.NONE
