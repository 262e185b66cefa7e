"""The graph passes (clause P4): rewrites, exceptions, unchanged results."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest

import graphmill
import graphmill_plugins.passes
from graphmill import ops
from graphmill.plugin.pass_registry import PHASES
from graphmill.testing.differential.pass_bisection import bisect, pass_names, without_passes
from graphmill.testing.fakes.twin_ops import TwinOps, twin_name, with_twins
from graphmill_plugins.passes import constant_folding
from graphmill_plugins.passes.read_before_write import order_reads


@pytest.fixture
def host():
    return graphmill.default_host()


def lowered_ops(graph, fetches, feeds=(), config=None, host=None):
    """Return the number of nodes of each op in the executed graph."""
    with graphmill.Session(graph=graph, config=config, host=host) as session:
        metadata = graphmill.RunMetadata()
        options = graphmill.RunOptions(output_partition_graphs=True)
        session.run(fetches, dict(feeds), options=options, run_metadata=metadata)
    counts = {}
    for node in metadata.partition_graphs[0].node:
        counts[node.op] = counts.get(node.op, 0) + 1
    return counts


def test_p4_passes_are_documented_and_registered_in_their_order() -> None:
    plugin = graphmill_plugins.passes
    scheduled = graphmill.Host([plugin], load_entry_points=False).passes.scheduled_in
    order = [name for phase in PHASES for name, _ in scheduled(phase)]
    assert re.findall(r"^\d\. `(\w+)`", plugin.__doc__ or "", re.MULTILINE) == order

    registered: list[str] = []
    recorder = SimpleNamespace(add=lambda name, *_, **__: registered.append(name))
    plugin.graphmill_register_passes(recorder)
    assert registered == order


def test_p4_constants_are_folded() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [2], name="x")
        two = ops.math.mul(graph.constant(1.0), graph.constant(2.0))
        y = ops.math.mul(x, two)
    counts = lowered_ops(graph, y.name, {"x:0": [1, 2]})
    assert counts["Mul"] == 1
    assert counts["Const"] == 1


def test_p4_constants_of_a_plugin_are_folded(host) -> None:
    twin_host = graphmill.Host(plugins=[TwinOps(["Const"], host)])
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [2], name="x")
        two = ops.math.mul(graph.constant(1.0), graph.constant(2.0))
        y = ops.math.mul(x, two)
    twins = with_twins(graph, ["Const"], twin_host)
    counts = lowered_ops(twins, y.name, {"x:0": [1, 2]}, host=twin_host)
    assert (counts["Mul"], counts["Const"]) == (1, 1)
    assert twin_name("Const") not in counts


def test_folding_ends_when_its_time_is_over(monkeypatch) -> None:
    monkeypatch.setattr(constant_folding, "_MAX_SECONDS", -1.0)
    graph = graphmill.Graph()
    with graph.as_default():
        two = ops.math.mul(graph.constant(1.0), graph.constant(2.0), name="two")
    assert lowered_ops(graph, two.name)["Mul"] == 1


def test_folding_counts_the_bytes_of_strings() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        text = graph.constant(b"x" * 100)
        upper = ops.string.string_upper(text, name="upper")
    assert "StringUpper" not in lowered_ops(graph, upper.name)
    small = {"graph_options": {"optimizer_options": {"max_folded_constant_in_bytes": 64}}}
    assert lowered_ops(graph, upper.name, config=small)["StringUpper"] == 1


def test_p4_failing_constant_expression_is_not_folded() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        bad = ops.math.floor_div(graph.constant(1), graph.constant(0), name="bad")
        fine = ops.math.add_v2(graph.constant(1), graph.constant(2), name="fine")
    with graphmill.Session(graph=graph) as session:
        assert session.run(fine.name) == 3
        with pytest.raises(graphmill.errors.InvalidArgumentError, match="bad"):
            session.run(bad.name)


def test_p4_equal_nodes_are_merged_and_random_ones_are_not() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [2], name="x")
        same = ops.math.add_v2(ops.math.exp(x), ops.math.exp(x), name="same")
        shape = graph.constant([2])
        random = ops.math.sub(
            ops.random.random_uniform(shape, dtype="float32", seed=1, seed2=2),
            ops.random.random_uniform(shape, dtype="float32", seed=1, seed2=2),
            name="random",
        )
    counts = lowered_ops(graph, [same.name, random.name], {"x:0": [1, 2]})
    assert counts["Exp"] == 1
    assert counts["RandomUniform"] == 2


def test_p4_identities_are_bypassed_except_variable_reads() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        v = ops.state.variable_v2(shape=[], dtype="float32", name="v")
        assign = ops.state.assign(v, graph.constant(1.0), name="init")
        before = ops.array.identity(v, name="before")
        with graph.control_dependencies([before]):
            add = ops.state.assign_add(v, graph.constant(1.0), name="add")
        both = ops.math.add_v2(ops.array.identity(ops.array.identity(before)), add, name="both")
    with graphmill.Session(graph=graph) as session:
        session.run(assign.op)
        assert session.run(both.name) == 3.0  # 1 read before, 2 after
    counts = lowered_ops(graph, both.name.replace("both", "init"))
    assert counts.get("Identity", 0) == 0


@pytest.mark.parametrize(
    "config",
    [
        {"graph_options": {"optimizer_options": {"opt_level": "L0"}}},
        {"graph_options": {"rewrite_options": {"disable_meta_optimizer": True}}},
        {"graph_options": {"rewrite_options": {"constant_folding": "OFF"}}},
    ],
)
def test_p4_passes_obey_the_config(config) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        y = ops.math.mul(graph.constant(1.0), graph.constant(2.0))
    assert lowered_ops(graph, y.name, config=config).get("Mul") == 1


@pytest.mark.parametrize(
    "off",
    [
        {"optimizer_options": {"opt_level": "L0"}},
        {"rewrite_options": {"disable_meta_optimizer": True}},
        {"rewrite_options": {"constant_folding": "OFF"}},
    ],
)
def test_p4_a_flag_enables_one_pass_in_any_case(off) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        ops.array.fill([10], 1.0, name="f")
        x = graph.placeholder("float32", [], name="x")
        ops.math.add_v2(ops.math.exp(x), ops.math.exp(x), name="twice")
    assert "Fill" in lowered_ops(graph, "f:0", config={"graph_options": off})
    optimizer = {**off.get("optimizer_options", {}), "do_constant_folding": True}
    config = {"graph_options": {**off, "optimizer_options": optimizer}}
    assert lowered_ops(graph, "f:0", config=config) == {"Const": 1, "_Retval": 1}
    if "constant_folding" not in off.get("rewrite_options", {}):
        assert lowered_ops(graph, "twice:0", {"x:0": 0}, config)["Exp"] == 2


STRIP = {"graph_options": {"rewrite_options": {"debug_stripper": "ON"}}}


@pytest.fixture
def diagnosing_graph():
    """Return a graph whose checks fail if `x` is NaN, at the top level and in a function."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        checked = ops.array.check_numerics(x, message="bad", name="checked")
        ops.logging.print(checked, [x], message="seen", name="printed")
        is_positive = ops.math.greater(x, 0.0)
        check = graph.create_op(
            "Assert", [is_positive, x], {"T": [graphmill.float32]}, name="assert"
        )
        with graph.control_dependencies([check]):
            ops.math.neg(graph.get_tensor_by_name("printed:0"), name="y")
        graph.create_op("PrintV2", [graph.constant(b"text")], name="print_v2")
    return graph


def test_debug_stripper_removes_checks_and_reports(diagnosing_graph, capfd) -> None:
    counts = lowered_ops(diagnosing_graph, ["y:0", "print_v2"], {"x:0": float("nan")}, STRIP)
    assert not {"Assert", "CheckNumerics", "Print", "PrintV2"} & set(counts)
    assert capfd.readouterr().err == ""
    with graphmill.Session(graph=diagnosing_graph) as session:
        with pytest.raises(graphmill.errors.InvalidArgumentError):
            session.run("y:0", {"x:0": float("nan")})
        assert session.run("y:0", {"x:0": 2}) == -2
    assert "seen" in capfd.readouterr().err


def test_debug_stripper_works_in_functions() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")

        def body(value):
            return ops.array.check_numerics(value, message="bad")

        graphmill.cond(ops.math.greater(x, 0.0), lambda: ops.math.neg(x), lambda: body(x), name="c")
        last = graph.get_operations()[-1].name
    with graphmill.Session(graph=graph, config=STRIP) as session:
        assert np.isnan(session.run(f"{last}:0", {"x:0": float("nan")}))


def test_checks_of_a_plugin_are_stripped_too(diagnosing_graph, host) -> None:
    names = ["Assert", "CheckNumerics"]
    twin_host = graphmill.Host(plugins=[TwinOps(names, host)])
    twins = with_twins(diagnosing_graph, names, twin_host)
    counts = lowered_ops(twins, "y:0", {"x:0": float("nan")}, STRIP, twin_host)
    assert not set(map(twin_name, names)) & set(counts)


def test_an_op_that_diagnoses_no_input_is_refused() -> None:
    op = graphmill.spi.OpDef(
        "Mine>Odd",
        output_args=(graphmill.spi.ArgDef("y", type=graphmill.float32),),
        traits=graphmill.spi.OpTraits(diagnoses=True),
    )

    class Plugin:
        @graphmill.hookimpl
        def graphmill_register_ops(self, ops):
            ops.add(op)

    with pytest.raises(graphmill.errors.OpError, match="diagnoses needs an input"):
        graphmill.Host(plugins=[Plugin()])


def test_p4_passes_obey_the_environment(monkeypatch) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        y = ops.math.mul(graph.constant(1.0), graph.constant(2.0))
    monkeypatch.setenv("GRAPHMILL_DISABLE_PASSES", "constant_folding,other")
    assert lowered_ops(graph, y.name).get("Mul") == 1


def test_p4_bisect_names_the_pass_that_changes_a_result(host) -> None:
    class Liar:
        @graphmill.hookimpl
        def graphmill_register_passes(self, passes):
            passes.add("liar", lie, phase="POST_REWRITE_FOR_EXEC", order=25)

    def lie(graph, options):
        for node in graph.nodes:
            if node.op == "AddV2":
                left, right = node.sources
                graph.replace_input(node, 1, *left)
                assert right

    lying = graphmill.Host(plugins=[Liar()])
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        y = ops.math.add_v2(ops.math.exp(x), x)
    assert bisect(graph, [y.name], {"x:0": 1.0}, host=host) is None
    assert bisect(graph, [y.name], {"x:0": 1.0}, host=lying) == "liar"
    assert "liar" in pass_names(lying)
    assert "liar" not in pass_names(without_passes(lying, ["liar"]))


def test_p4_a_pass_that_raises_is_named(host) -> None:
    class Broken:
        @graphmill.hookimpl
        def graphmill_register_passes(self, passes):
            passes.add("broken", fail, phase="PRE_PLACEMENT")

    def fail(graph, options):
        raise TypeError("no good")

    graph = graphmill.Graph()
    with graph.as_default():
        y = graph.constant(np.float32(1), name="y")
    with (
        graphmill.Session(graph=graph, host=graphmill.Host(plugins=[Broken()])) as session,
        pytest.raises(graphmill.errors.InternalError, match=r"broken.*no good"),
    ):
        session.run(y.name)


def counter(graph, is_resource, write_first):
    """Return unordered reads and writes of a variable: (init, read, add, waiting)."""
    state, math = ops.state, ops.math
    with graph.as_default():
        one = graph.constant(np.float32(1))
        if is_resource:
            variable = state.var_handle_op(dtype="float32", shape=[], shared_name="v")
            init = state.assign_variable_op(variable, one)
            makers = {
                "add": lambda: state.assign_add_variable_op(variable, one),
                "read": lambda: math.mul(state.read_variable_op(variable, dtype="float32"), one),
            }
        else:
            variable = state.variable_v2(shape=[], dtype="float32")
            init = state.assign(variable, one).op
            makers = {
                "add": lambda: state.assign_add(variable, one).op,
                "read": lambda: math.mul(ops.array.identity(variable), one),
            }
        made = {name: makers[name]() for name in sorted(makers, reverse=not write_first)}
        with graph.control_dependencies([made["add"]]):
            late = makers["read"]()
    return init, made["read"], made["add"], late


@pytest.mark.parametrize("jit", ["off", "eager"])
@pytest.mark.parametrize("is_resource", [True, False])
@pytest.mark.parametrize("write_first", [True, False])
def test_p4_unordered_read_precedes_writes(is_resource, write_first, jit) -> None:
    graph = graphmill.Graph()
    init, read, add, late = counter(graph, is_resource, write_first)
    config = {"graphmill": {"jit": jit}}
    with graphmill.Session(graph=graph, config=config) as session:
        session.run(init)
        for step in range(1, 4):
            assert session.run([read, late, add])[:2] == [step, step + 1]


def test_p4_ordered_write_gets_no_second_edge() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        variable = ops.state.variable_v2(shape=[], dtype="float32", name="v")
        value = ops.array.identity(variable, name="read")
        ops.state.assign(variable, ops.math.exp(value), name="write")
        ops.state.assign_add(variable, graph.constant(np.float32(1)), name="other")
    order_reads(graph, None)
    assert not graph.node("write").control_inputs
    assert [node.name for node in graph.node("other").control_inputs] == ["read"]
