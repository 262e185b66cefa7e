"""Trip counts are inferred from the declared arithmetic of ops of any plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill.explain import explain_all
from graphmill.graph.functions.function_body import instantiate_function
from graphmill.graph.functions.function_def import function_def
from graphmill.ops import array, functional, math
from graphmill.ops.attrs.attr_types import FuncAttr
from graphmill.plugin.host import default_host
from graphmill.testing.fakes.twin_ops import TwinOps, twin_name, with_twins
from graphmill_plugins.jit.analysis.trip_count import TripCount, pass_through, trip_count_of
from graphmill_plugins.jit.programs import compiler

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphmill.graph.tensor import Tensor

    Build = Callable[..., Sequence[Tensor]]

NAMES = ("Add", "AddV2", "Less", "LessEqual", "LogicalAnd", "EnsureShape")
pytestmark = pytest.mark.jax


@pytest.fixture(scope="module")
def host() -> graphmill.Host:
    return graphmill.Host(plugins=[TwinOps(NAMES, default_host())])


def loop_of(cond: Build, body: Build, first: Sequence[Any]) -> graphmill.Graph:
    """Return a graph with a `While` of two functions; `y:0` is the sum of its results."""
    graph = graphmill.Graph()
    for name, build in (("cond", cond), ("body", body)):
        inner = graphmill.Graph()
        with inner.as_default():
            args = [inner.placeholder("int32", (), f"arg{index}") for index in range(len(first))]
            results = [(tensor.op, tensor.value_index) for tensor in build(*args)]
        graph.library.add(function_def(name, inner, [arg.op for arg in args], results))
    with graph.as_default():
        x = graph.placeholder("int32", (), "x")
        start = [x if value is None else np.int32(value) for value in first]
        functions = {name: FuncAttr(name, {}) for name in ("cond", "body")}
        math.add_n(functional.while_(start, **functions), name="y")
    return graph


def count(graph: graphmill.Graph, args: Sequence[Any], host: graphmill.Host) -> TripCount | None:
    def body(attr: FuncAttr) -> Any:
        return instantiate_function(attr.name, {}, graph.library, host.ops)

    values = [None if value is None else np.int32(value) for value in args]
    cond, repeated = body(FuncAttr("cond", {})), body(FuncAttr("body", {}))
    return trip_count_of(cond, repeated, values, body)


def below(limit: int, compare: Any = math.less) -> Build:
    return lambda i, *_: [compare(i, np.int32(limit))]


def also_positive(limit: int) -> Build:
    def build(i: Tensor, x: Tensor) -> Sequence[Tensor]:
        return [math.logical_and(math.less(i, np.int32(limit)), math.less(np.int32(0), x))]

    return build


def below_both(limit: int, other: int) -> Build:
    """Return a condition of two limits, as `maximum_iterations` adds one."""
    return lambda i, x: [
        math.logical_and(math.less(i, np.int32(limit)), math.less_equal(i, np.int32(other)))
    ]


def stepping(step: int, add: Any = math.add_v2) -> Build:
    return lambda i, x: [array.ensure_shape(add(i, np.int32(step)), shape=()), x]


LOOPS = [
    (below(7), stepping(1), TripCount(7, True)),
    (below(7), stepping(2, math.add), TripCount(4, True)),
    (below(7, math.less_equal), stepping(1), TripCount(8, True)),
    (also_positive(5), stepping(1), TripCount(5, False)),
    (below_both(9, 5), stepping(1), TripCount(6, True)),
    (below(7), lambda i, x: [math.add_v2(i, x), x], None),
    (below(7), lambda i, x: [math.sub(i, np.int32(-1)), x], None),
]


@pytest.mark.parametrize(("cond", "body", "expected"), LOOPS)
def test_trip_count_with_twin_ops_is_the_same(
    cond: Build, body: Build, expected: TripCount | None, host: graphmill.Host
) -> None:
    graph = loop_of(cond, body, [0, None])
    twins = with_twins(graph, NAMES, host)
    held = {node.op for f in twins.library for node in nodes_of(twins, f, host)}
    assert not held & set(NAMES)
    assert any(op.startswith(twin_name("")) for op in held)
    assert count(graph, [0, None], host) == count(twins, [0, None], host) == expected


def nodes_of(graph: graphmill.Graph, name: str, host: graphmill.Host) -> Any:
    return instantiate_function(name, {}, graph.library, host.ops).graph.nodes


LONG = 200_000
"""A trip count above the maximum of programs without an iteration budget."""


@pytest.mark.parametrize("limit", [7, LONG])
@pytest.mark.parametrize("names", [(), NAMES], ids=["tensorflow", "twins"])
def test_a_loop_with_a_small_trip_count_has_no_iteration_budget(
    names: tuple[str, ...], limit: int, host: graphmill.Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    class Noted(compiler.LimitedProgram):
        def __init__(self, *args: Any) -> None:
            made.append(args)
            super().__init__(*args)

    monkeypatch.setattr(compiler, "LimitedProgram", Noted)
    graph = with_twins(loop_of(below(limit), stepping(1), [0, None]), names, host)
    config = {"graphmill": {"jit": "eager"}}
    with graphmill.Session(graph=graph, host=host, config=config) as session:
        assert session.run("y:0", {"x:0": 3}) == limit + 3
        (step,) = explain_all(session)
    (compilation,) = step.compilations.values()
    (record,) = [one for cluster in compilation.clusters for one in cluster.signatures]
    assert record.num_compiled == 1, record.reason
    assert bool(made) == (limit == LONG)


def test_outputs_of_one_node_that_forwards_are_distinguished(host: graphmill.Host) -> None:
    """The outputs of a node that forwards two arguments in swapped order are distinguished."""

    def swapping(i: Tensor, x: Tensor, y: Tensor) -> Sequence[Tensor]:
        outputs = array.identity_n([x, y, math.add_v2(i, np.int32(1))])
        return [outputs[2], outputs[1], outputs[0]]

    graph = loop_of(below(3), swapping, [0, 5, 7])
    body = instantiate_function("body", {}, graph.library, host.ops)
    assert pass_through(body) == frozenset()
    assert count(graph, [0, 5, 7], host) == TripCount(3, True)
    assert count(graph, [0, None, None], host) == TripCount(3, True)
