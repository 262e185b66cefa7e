"""Control flow ops of a plugin behave and compile like TensorFlow's in every tier."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import graphmill
from graphmill.explain.compilation import INTERPRETED
from graphmill.graph.functions.function_def import function_def
from graphmill.ops import array, functional, math
from graphmill.ops.attrs.attr_types import FuncAttr
from graphmill.plugin.host import default_host
from graphmill.runtime.dead import DEAD
from graphmill.runtime.kernels.kernel import kernel
from graphmill.testing.fakes.third_party_plugin import ThirdPartyPlugin
from graphmill.testing.fakes.twin_ops import CONTROL_FLOW, PREFIX, TwinOps, with_twins

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.divided

TIERS: Final = ("off", "tiered", "eager")
STEPS: Final = 6
CALLS: Final = ("PartitionedCall", "StatefulPartitionedCall", "If", "While", "Case")
VALUES: Final = ("Const", "Placeholder", "VarHandleOp", "ReadVariableOp", "Shape", "Identity")
# A gradient of an `Identity` of a plugin is a call of its kernel's function, other nodes therefore.
DIFFERENTIATED: Final = tuple({*CONTROL_FLOW, *CALLS, *VALUES} - {"Identity"})


@pytest.fixture(scope="module")
def host() -> graphmill.Host:
    return graphmill.Host(plugins=[TwinOps((*CONTROL_FLOW, *CALLS, *VALUES), default_host())])


def conditional(graph: graphmill.Graph, x: Any) -> Any:
    return graphmill.cond(x > 1.0, lambda: x * 2.0, lambda: x - 1.0)


def loop(graph: graphmill.Graph, x: Any) -> Any:
    first = [0, graph.constant(1.0)]
    return graphmill.while_loop(lambda i, _: i < 5, lambda i, a: (i + 1, a * x), first)[1]


def nested(graph: graphmill.Graph, x: Any) -> Any:
    def body(i: Any, a: Any) -> Any:
        _, inner = graphmill.while_loop(
            lambda j, _: j < i, lambda j, b: (j + 1, b + x), [graph.constant(0), a]
        )
        return i + 1, graphmill.cond(inner > 9.0, lambda: inner - 1.0, lambda: inner)

    return graphmill.while_loop(lambda i, _: i < 6, body, [0, graph.constant(0.5)])[1]


def switched(graph: graphmill.Graph, x: Any) -> Any:
    index = math.cast(x, DstT="int32")
    return graphmill.switch_case(index, [lambda: x + 1.0, lambda: x * 5.0, lambda: x - 7.0])


def refused_branch(graph: graphmill.Graph, x: Any) -> Any:
    k = math.cast(x, DstT="int32")
    return graphmill.cond(x > 1.0, lambda: math.floor_div(k, k - k), lambda: k)


def refused_iteration(graph: graphmill.Graph, x: Any) -> Any:
    def body(i: Any, a: Any) -> Any:
        return i + 1, array.check_numerics(a * x * 1e30, message="too large")

    return graphmill.while_loop(lambda i, _: i < 5, body, [0, graph.constant(1.0)])[1]


def add_function(graph: graphmill.Graph, name: str, args: str, compute: Callable[..., Any]) -> None:
    body = graphmill.Graph()
    with body.as_default():
        placeholders = [
            body.placeholder(dtype, (), f"a{i}") for i, dtype in enumerate(args.split())
        ]
        results = compute(*placeholders)
    taken = [(tensor.op, tensor.value_index) for tensor in results]
    graph.library.add(function_def(name, body, [tensor.op for tensor in placeholders], taken))


def called(call: Callable[..., Any]) -> Callable[[graphmill.Graph, Any], Any]:
    def build(graph: graphmill.Graph, x: Any) -> Any:
        add_function(graph, "square", "float32", lambda a: [a * a + a])
        add_function(graph, "root", "float32", lambda a: [a * 0.5 - a])
        add_function(graph, "less", "int32 float32", lambda i, _: [i < 3])
        add_function(graph, "step", "int32 float32", lambda i, a: [i + 1, a * a])
        return call(x)

    return build


ONE: Final = FuncAttr("square", {})
OTHER: Final = FuncAttr("root", {})
STRUCTURES: Final[dict[str, Callable[..., Any]]] = {
    "conditional": conditional,
    "loop": loop,
    "nested": nested,
    "switched": switched,
    "call": called(lambda x: functional.partitioned_call([x], Tout=["float32"], f=ONE)[0]),
    "stateful call": called(
        lambda x: functional.stateful_partitioned_call([x], Tout=["float32"], f=ONE)[0]
    ),
    "If": called(
        lambda x: functional.if_(
            x > 1.0, [x], Tout=["float32"], then_branch=ONE, else_branch=OTHER
        )[0]
    ),
    "Case": called(
        lambda x: functional.case(
            math.cast(x, DstT="int32"), [x], Tout=["float32"], branches=[ONE, OTHER]
        )[0]
    ),
    "While": called(
        lambda x: functional.while_([0, x], cond=FuncAttr("less", {}), body=FuncAttr("step", {}))[1]
    ),
}
REFUSED: Final = {"branch": refused_branch, "iteration": refused_iteration}


def built(build: Callable[..., Any]) -> graphmill.Graph:
    graph = graphmill.Graph()
    with graph.as_default():
        array.identity(build(graph, graph.placeholder("float32", (), "x")), name="y")
    return graph


def add_gradient(graph: graphmill.Graph, host: graphmill.Host) -> graphmill.Graph:
    with graph.as_default():
        x, y = graph.get_tensor_by_name("x:0"), graph.get_tensor_by_name("y:0")
        (dx,) = graphmill.gradients(y, x, host=host)
        array.identity(dx, name="dx")
    return graph


def session(graph: graphmill.Graph, host: graphmill.Host, tier: str) -> graphmill.Session:
    config = {"graphmill": {"jit": tier, "jit_min_cluster_size": 1}}
    return graphmill.Session(graph=graph, host=host, config=config)


def steps(made: graphmill.Session, host: graphmill.Host, fetch: str, x: float) -> list[float]:
    found = []
    for _ in range(STEPS):
        found.append(made.run(fetch, {"x:0": x}).item())
        host.background.wait_idle()
    return found


def places(made: graphmill.Session, fetch: str) -> dict[str, str]:
    """Return for each node "cluster", or the reason why it is in none."""
    nodes = made.explain(fetch, ["x:0"]).nodes
    return {node.node: "" if node.cluster else node.tier_reason for node in nodes}


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", STRUCTURES)
def test_control_flow_of_a_plugin_is_compiled_as_tensorflows(
    name: str, tier: str, host: graphmill.Host
) -> None:
    graph = built(STRUCTURES[name])
    twins = with_twins(graph, (*CONTROL_FLOW, *CALLS, *VALUES), host)
    with session(graph, host, tier) as one, session(twins, host, tier) as other:
        for x in (0.5, 2.0):
            assert steps(other, host, "y:0", x) == steps(one, host, "y:0", x)
        assert places(other, "y:0") == places(one, "y:0")
        if tier != "off":
            assert "" in places(other, "y:0").values()


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", STRUCTURES)
def test_plugin_control_flow_gradient_is_compiled(
    name: str, tier: str, host: graphmill.Host
) -> None:
    graph = add_gradient(built(STRUCTURES[name]), host)
    twins = with_twins(built(STRUCTURES[name]), DIFFERENTIATED, host)
    twins = with_twins(add_gradient(twins, host), DIFFERENTIATED, host)
    with session(graph, host, tier) as one, session(twins, host, tier) as other:
        for x in (0.5, 2.0):
            assert steps(other, host, "dx:0", x) == steps(one, host, "dx:0", x)
        reasons = set(places(other, "dx:0").values())
        assert reasons <= set(places(one, "dx:0").values())


@pytest.mark.parametrize("tier", TIERS)
def test_plugin_identity_gradient_reports_why_interpreted(tier: str, host: graphmill.Host) -> None:
    graph = add_gradient(with_twins(built(loop), (*CONTROL_FLOW, "Identity"), host), host)
    plain = add_gradient(built(loop), host)
    with session(graph, host, tier) as made, session(plain, host, tier) as other:
        assert steps(made, host, "dx:0", 1.5) == steps(other, host, "dx:0", 1.5)
        nodes = made.explain("dx:0", ["x:0"]).nodes
    found = [node for node in nodes if node.op == "SymbolicGradient"]
    assert found
    for node in found:
        assert node.tier == INTERPRETED
        expected = "compilation is off" if tier == "off" else "only its kernel determines"
        assert expected in node.tier_reason


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", REFUSED)
def test_plugin_control_flow_errors_match_tensorflow_ops(
    name: str, tier: str, host: graphmill.Host
) -> None:
    graph = built(REFUSED[name])
    messages = []
    for one in (graph, with_twins(graph, (*CONTROL_FLOW, *VALUES), host)):
        with session(one, host, tier) as made:
            for _ in range(STEPS):
                with pytest.raises(graphmill.errors.InvalidArgumentError) as caught:
                    made.run("y:0", {"x:0": 2.0})
                caught.value.defined_at = None  # the graph of twins comes from a message
                messages.append(str(caught.value).replace(PREFIX, ""))
                host.background.wait_idle()
    assert len(set(messages)) == 1


@kernel("Switch", backend="numpy", priority=10)
def adds_to_what_is_switched(data: Any, pred: Any) -> Any:
    more = data + np.asarray(100, data.dtype) if data.dtype.kind == "f" else data
    return (DEAD, more) if pred else (more, DEAD)


@kernel("NextIteration", backend="numpy", priority=10)
def adds_in_each_iteration(data: Any) -> Any:
    return data + np.asarray(1, data.dtype) if data.dtype.kind == "f" else data


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(
    ("override", "build", "expected"),
    [
        (adds_to_what_is_switched, conditional, 204.0),
        (adds_to_what_is_switched, loop, 6332.0),
        (adds_in_each_iteration, loop, 63.0),
    ],
)
def test_kernel_in_place_of_control_flow_runs_in_every_tier(
    override: Any, build: Callable[..., Any], expected: float, tier: str
) -> None:
    host = graphmill.Host(plugins=[ThirdPartyPlugin(kernels=[override])])
    with session(built(build), host, tier) as made:
        assert set(steps(made, host, "y:0", 2.0)) == {expected}
        nodes = made.explain("y:0", ["x:0"]).nodes
    overridden = [node for node in nodes if node.kernel.endswith(override.__name__)]
    assert overridden
    for node in overridden:
        assert node.tier == INTERPRETED
        assert tier == "off" or "has no lowering" in node.tier_reason
