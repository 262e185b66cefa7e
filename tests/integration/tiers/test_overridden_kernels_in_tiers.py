"""A plugin's kernel for a built-in op runs in every tier, whatever passes know about the op.

Each kernel here computes other numbers than the op's own. So a pass, or the compiler, that replaces
a node according to the traits of its op changes the result. The expected results are those of a
session without passes and compiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import graphmill
from graphmill.plugin.host import default_host
from graphmill.runtime.kernels.kernel import kernel
from graphmill.testing.fakes.third_party_plugin import ThirdPartyPlugin
from graphmill.testing.tier_programs import PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphmill.graph.tensor import Tensor
    from graphmill.ops.definition.op_def import OpDef

pytestmark = [pytest.mark.divided, pytest.mark.jax]

TIERS: Final = ("off", "tiered", "eager")
STEPS: Final = 6
PLACES: Final = ("of_constants:0", "of_arguments:0", "swapped:0", "in_branch:0", "in_loop:0")
X: Final = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
Y: Final = np.array([0.5, 0.25, 0.75, 0.125], np.float32)
FEEDS: Final = {"x:0": X, "y:0": Y, "p:0": True}
WITHOUT_PASSES: Final = {
    "rewrite_options": {"disable_meta_optimizer": True},
    "optimizer_options": {"opt_level": -1},
}


def is_rewritten(op_def: OpDef) -> bool:
    """Return whether passes bypass nodes of an op, or swap its inputs; for ops of float tensors."""
    (type_attr, *others) = [attr for attr in op_def.attrs if attr.type == "type"] or [None]
    args = (*op_def.input_args, *op_def.output_args)
    if type_attr is None or others or op_def.is_stateful or len(op_def.output_args) != 1:
        return False
    if any(arg.is_ref or arg.is_list or arg.type_attr != type_attr.name for arg in args):
        return False
    takes_floats = not type_attr.allowed or graphmill.float32 in type_attr.allowed
    return takes_floats and (op_def.traits.forwards or op_def.is_commutative)


REWRITTEN: Final = tuple(
    name for name in default_host().ops.names() if is_rewritten(default_host().ops.get(name))
)


def odd(*values: Any) -> Any:
    return values[0] * np.float32(2) + values[-1] * np.float32(0.5) + np.float32(100)


def odd_lowering(_trace: Any, *values: Any) -> Any:
    return odd(*values)


def add_seven_lowering(_trace: Any, x: Any, y: Any) -> Any:
    return x * y + np.float32(7)


def host_with_odd(op: str, **declared: Any) -> graphmill.Host:
    """Return a host on which a plugin computes an op of floats differently."""
    (type_attr,) = (attr.name for attr in default_host().ops.get(op).attrs if attr.type == "type")

    @kernel(op, backend="numpy", priority=10, make=True, types={type_attr: ["float32"]}, **declared)
    def overriding(_xp: Any) -> Any:
        return odd

    return graphmill.Host(plugins=[ThirdPartyPlugin(kernels=[overriding])])


def graph_with(op: str) -> graphmill.Graph:
    """Return a graph with nodes of an op in several places, each read by a node of that name."""
    graph = graphmill.Graph()
    with graph.as_default():
        x, y = (graph.placeholder("float32", [4], name=name) for name in "xy")
        count = len(default_host().ops.get(op).input_args)

        def node(*inputs: Tensor) -> Tensor:
            current = graphmill.get_default_graph()
            return current.outputs_of(current.create_op(op, inputs[:count]))[0]

        def iteration(i: Tensor, a: Tensor) -> tuple[Tensor, Tensor]:
            return graphmill.ops.math.floor_div(i, 2), node(a, y)

        predicate = graph.placeholder("bool", [], name="p")
        results = {
            "of_constants": node(graph.constant(X), graph.constant(Y)),
            "of_arguments": node(x, y),
            "swapped": node(y, x),
            "in_branch": graphmill.cond(predicate, lambda: node(x, y), lambda: x),
            "in_loop": graphmill.while_loop(
                lambda i, _: graphmill.ops.math.greater(i, 0), iteration, [graph.constant(4), x]
            )[1],
        }
        for name, result in results.items():
            graphmill.ops.math.neg(result, name=name)
    return graph


def values_of(
    graph: Any,
    fetches: list[str],
    host: graphmill.Host,
    config: Mapping[str, Any],
    feeds: Mapping[str, Any],
    *initializers: str,
) -> list[Any]:
    """Return the values of the last of some steps."""
    with graphmill.Session(graph=graph, host=host, config=dict(config)) as session:
        session.run([], targets=list(initializers))
        values: list[Any] = []
        for _ in range(STEPS):
            values = session.run(fetches, dict(feeds))
        return values


def check_tiers(
    graph: Any,
    fetches: list[str],
    host: graphmill.Host,
    feeds: Mapping[str, Any],
    *initializers: str,
) -> list[Any]:
    """Check that all tiers return the results of a session without passes; return these."""
    plain = {"graphmill": {"jit": "off"}, "graph_options": WITHOUT_PASSES}
    expected = values_of(graph, fetches, host, plain, feeds, *initializers)
    for tier in TIERS:
        config = {"graphmill": {"jit": tier}}
        got = values_of(graph, fetches, host, config, feeds, *initializers)
        for fetch, value, other in zip(fetches, got, expected, strict=True):
            np.testing.assert_allclose(value, other, 1e-6, err_msg=f"{fetch} with jit {tier}")
    return expected


def test_ops_are_selected() -> None:
    assert {"Identity", "StopGradient", "AddV2", "Mul"} <= set(REWRITTEN)


@pytest.mark.parametrize("form", ["interpreted", "lowered"])
@pytest.mark.parametrize("op", REWRITTEN)
def test_overriding_kernel_runs_in_all_places(op: str, form: str) -> None:
    declared = {"lowering": odd_lowering} if form == "lowered" else {}
    values = check_tiers(graph_with(op), list(PLACES), host_with_odd(op, **declared), FEEDS)
    is_binary = len(default_host().ops.get(op).input_args) == 2
    of_arguments = odd(X, Y) if is_binary else odd(X)
    np.testing.assert_allclose(-values[1], of_arguments, 1e-6)


def test_kernel_that_promises_to_forward_is_bypassed() -> None:
    host = host_with_odd("Identity", forwards=True)  # a promise that is not kept shows the bypass
    graph = graph_with("Identity")
    (value,) = values_of(graph, ["of_arguments:0"], host, {"graphmill": {"jit": "off"}}, FEEDS)
    np.testing.assert_array_equal(value, -X)


def test_constant_of_an_overriding_kernel_is_not_folded() -> None:
    @kernel("Const", backend="numpy", priority=10, make=True, types={"dtype": ["float32"]})
    def overriding(_xp: Any, value: Any) -> Any:
        return lambda: value + np.float32(7)

    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        graphmill.ops.math.sqrt(graph.constant(2.0), name="folded")
        graphmill.ops.math.mul(x, graph.constant(2.0), name="read")
    host = graphmill.Host(plugins=[ThirdPartyPlugin(kernels=[overriding])])
    values = check_tiers(graph, ["folded:0", "read:0"], host, {"x:0": 3.0})
    np.testing.assert_allclose(values, [3.0, 27.0])


@pytest.mark.parametrize("op", ["OneHot", "Sum"])
def test_pattern_with_an_overriding_kernel_is_kept(op: str) -> None:
    @kernel(op, backend="numpy", priority=10, make=True)
    def overriding(_xp: Any) -> Any:
        return lambda first, *_: np.ones((3, 5) if op == "OneHot" else (5,), np.float32) * 11

    graph = graphmill.Graph()
    with graph.as_default():
        indices = graph.placeholder("int32", [3], name="i")
        encoded = graphmill.ops.array.one_hot(indices, 5, 1.0, 0.0)
        bag = graphmill.ops.math.sum(encoded, [0])
        graphmill.ops.math.tanh(graphmill.ops.math.mul(bag, 0.01), name="out")
    host = graphmill.Host(plugins=[ThirdPartyPlugin(kernels=[overriding])])
    (value,) = check_tiers(graph, ["out:0"], host, {"i:0": [0, 1, 1]})
    np.testing.assert_allclose(value, np.tanh([0.33 if op == "OneHot" else 0.11] * 5), 1e-6)


def test_segment_op_with_an_overriding_kernel_is_kept() -> None:
    @kernel("SparseSegmentMean", backend="numpy", priority=10, make=True)
    def overriding(_xp: Any) -> Any:
        return lambda data, _indices, _ids: np.ones((2, data.shape[1]), np.float32) * 5

    graph = graphmill.Graph()
    with graph.as_default():
        data = graph.placeholder("float32", [4, 3], name="data")
        mean = graphmill.ops.math.sparse_segment_mean(data, [0, 1, 2], [0, 0, 1])
        graphmill.ops.math.tanh(graphmill.ops.math.mul(mean, 0.1), name="out")
    host = graphmill.Host(plugins=[ThirdPartyPlugin(kernels=[overriding])])
    feeds = {"data:0": np.ones((4, 3), np.float32)}
    (value,) = check_tiers(graph, ["out:0"], host, feeds)
    np.testing.assert_allclose(value, np.full((2, 3), np.tanh(0.5)), 1e-6)


@pytest.mark.parametrize("backend", [None, "numpy"])
def test_constant_of_an_overriding_kernel_is_not_copied_into_clusters(backend: str | None) -> None:
    @kernel("Const", backend=backend, priority=10, types={"dtype": ["float32"]})
    def overriding(xp: Any, value: Any) -> Any:
        return value + np.float32(7)

    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        product = graphmill.ops.math.mul(x, graph.constant(2.0))
        graphmill.ops.math.sqrt(product, name="y")
    host = graphmill.Host(plugins=[ThirdPartyPlugin(kernels=[overriding])])
    (value,) = check_tiers(graph, ["y:0"], host, {"x:0": 4.0})
    assert value == 6.0


def test_loop_whose_condition_is_overridden_has_no_known_trip_count() -> None:
    @kernel("Less", priority=10)
    def overriding(xp: Any, x: Any, y: Any) -> Any:
        return xp.less(xp.add(x, 2), y)

    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [2], name="x")
        arrays = graphmill.ops.tensor_array
        handle, flow = arrays.tensor_array_v3(
            0, dtype="float32", element_shape=[2], dynamic_size=True
        )
        *_, flow = graphmill.while_loop(
            lambda i, *_: graphmill.ops.math.less(i, 5),
            lambda i, a, flow: (i + 1, a * 0.5, arrays.tensor_array_write_v3(handle, i, a, flow)),
            [graph.constant(0), x, flow],
        )
        indices = graphmill.ops.math.range(0, arrays.tensor_array_size_v3(handle, flow), 1)
        stacked = arrays.tensor_array_gather_v3(handle, indices, flow, dtype="float32")
        graphmill.ops.math.neg(stacked, name="y")
    host = graphmill.Host(plugins=[ThirdPartyPlugin(kernels=[overriding])])
    (value,) = check_tiers(graph, ["y:0"], host, {"x:0": [4.0, 8.0]})
    np.testing.assert_array_equal(value, [[-4.0, -8.0], [-2.0, -4.0], [-1.0, -2.0]])


@pytest.mark.parametrize("context", ["function", "If branch", "While body"])
def test_overriding_kernel_of_a_call_runs(context: str) -> None:
    def overriding(_xp: Any, *values: Any) -> Any:
        *others, x = values[-1]
        return (*others, x + 40)

    program = PROGRAMS[context]
    graph = program.graph_def(default_host().ops)
    (op,) = {node.op for node in graph.node if "func" in str(node.attr)}
    kernels = [kernel(op, priority=10)(overriding)]
    host = graphmill.Host(plugins=[ThirdPartyPlugin(kernels=kernels)])
    (value,) = check_tiers(graph, [program.fetch], host, program.feeds)
    assert value == 42


def test_overriding_kernel_between_rows_sees_no_padding() -> None:
    @kernel("Neg", priority=10)
    def overriding(xp: Any, x: Any) -> Any:
        return xp.add(x, np.float32(x.shape[0]))  # depends on the number of rows

    graph = graphmill.Graph()
    with graph.as_default():
        ids = graph.placeholder("int32", [6], name="ids")
        rows = graph.placeholder("float32", [6, 2], name="rows")
        table = graphmill.Variable(np.zeros((9, 2), np.float32), name="table")
        unique, positions = graphmill.ops.array.unique(ids)
        size = graphmill.ops.array.shape(unique)[0]
        sums = graphmill.ops.math.unsorted_segment_sum(rows, positions, size)
        update = graphmill.ops.state.resource_scatter_add(
            table.handle, unique, graphmill.ops.math.neg(sums)
        )
        with graph.control_dependencies([update]):
            graphmill.ops.array.identity(table.read_value(), name="y")
        initializer = table.initializer.name
    host = graphmill.Host(plugins=[ThirdPartyPlugin(kernels=[overriding])])
    feeds = {"ids:0": [1, 2, 1, 4, 2, 1], "rows:0": np.ones((6, 2), np.float32)}
    (value,) = check_tiers(graph, ["y:0"], host, feeds, initializer)
    np.testing.assert_array_equal(value[1], np.full(2, STEPS * (3 + 3)))


@pytest.mark.parametrize("form", ["traced", "lowered"])
def test_label_of_one_of_two_equal_clusters_selects_its_kernel(form: str) -> None:
    def add_seven(xp: Any, x: Any, y: Any) -> Any:
        return x * y + np.float32(7)

    declared = {} if form == "traced" else {"backend": "numpy", "lowering": add_seven_lowering}
    labelled = kernel("Mul", label="mine", **declared)(add_seven)
    graph = graphmill.Graph()
    with graph.as_default():
        for name, attrs in (("plain", {}), ("labelled", {"_kernel": "mine"})):
            x = graph.placeholder("float32", [], name=f"{name}/x")
            product = graph.create_op("Mul", [x, x], attrs=attrs)
            graphmill.ops.math.sqrt(graph.outputs_of(product)[0], name=name)
    host = graphmill.Host(plugins=[ThirdPartyPlugin(kernels=[labelled])])
    feeds = {"plain/x:0": 3.0, "labelled/x:0": 3.0}
    values = check_tiers(graph, ["plain:0", "labelled:0"], host, feeds)
    np.testing.assert_array_equal(values, [3.0, 4.0])
