"""Loops and conditionals have TensorFlow's nodes and results (clauses G4, E7).

A program is built by both from one source: it is a function of a library, TensorFlow without
control flow v2 or graphmill, and of an int32 placeholder `x`. It returns tensors.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest

import graphmill
from graphmill import ops
from graphmill.testing.generators.control_flow_programs import random_program
from graphmill.testing.oracle.tensorflow_oracle import session_config

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.oracle
SEEDS = 300
INPUTS = (-3, 0, 1, 3, 6)


class Pair(NamedTuple):
    left: Any
    right: Any


def graphmill_library() -> SimpleNamespace:
    """Return the functions that programs use, from graphmill."""
    graph = graphmill.Graph()
    return SimpleNamespace(
        graph=graph,
        as_default=graph.as_default,
        constant=graph.constant,
        placeholder=lambda: graph.placeholder("int32", (), "x"),
        identity=ops.array.identity,
        equal=ops.math.equal,
        variable=lambda: ops.state.variable_v2(shape=(), dtype="int32", name="v"),
        assign=lambda ref, value: ops.state.assign(ref, value, name="start"),
        assign_add=ops.state.assign_add,
        name_scope=graph.name_scope,
        device=graph.device,
        colocate_with=graph.colocate_with,
        control_dependencies=graph.control_dependencies,
        while_loop=graphmill.while_loop,
        cond=graphmill.cond,
        case=graphmill.case,
        group=graphmill.group,
        tuple=graphmill.tuple,
        no_op=graphmill.no_op,
        Assert=graphmill.Assert,
    )


def tensorflow_library(tf: Any) -> SimpleNamespace:
    """Return the functions that programs use, from TensorFlow without control flow v2."""
    v1 = tf.compat.v1
    v1.disable_control_flow_v2()
    graph = tf.Graph()
    return SimpleNamespace(
        graph=graph,
        as_default=graph.as_default,
        constant=tf.constant,
        placeholder=lambda: v1.placeholder("int32", (), "x"),
        identity=lambda tensor: tf.raw_ops.Identity(input=tensor),
        equal=lambda x, y: tf.raw_ops.Equal(x=x, y=y),
        variable=lambda: tf.raw_ops.VariableV2(shape=(), dtype="int32", name="v"),
        assign=lambda ref, value: tf.raw_ops.Assign(ref=ref, value=value, name="start"),
        assign_add=lambda ref, value: tf.raw_ops.AssignAdd(ref=ref, value=value),
        name_scope=v1.name_scope,
        device=graph.device,
        colocate_with=graph.colocate_with,
        control_dependencies=graph.control_dependencies,
        while_loop=v1.while_loop,
        cond=v1.cond,
        case=v1.case,
        group=v1.group,
        tuple=v1.tuple,
        no_op=v1.no_op,
        Assert=v1.Assert,
    )


def counter(lib: Any, x: Any) -> Any:
    return lib.while_loop(lambda i: i < x, lambda i: i + 1, [lib.constant(0)])


def two_variables(lib: Any, x: Any) -> Any:
    return lib.while_loop(
        lambda i, total: i < x,
        lambda i, total: (i + 1, total + i * x),
        [0, 0],
        parallel_iterations=3,
        name="sum",
    )


def invariants_only(lib: Any, x: Any) -> Any:
    return lib.while_loop(lambda i, a: i < x, lambda i, a: (i + 1, x * x + 2), [0, x])


def body_returns_invariant(lib: Any, x: Any) -> Any:
    return lib.while_loop(lambda i, a: i < x, lambda i, a: (i + 1, x), [0, 7])


def bounded(lib: Any, x: Any) -> Any:
    return lib.while_loop(
        lambda i, a: i < x, lambda i, a: (i + 2, a - i), (0, 0), maximum_iterations=3
    )


def bounded_alone(lib: Any, x: Any) -> Any:
    return lib.while_loop(lambda i: i < x, lambda i: i + 2, [0], maximum_iterations=3)


def nested_loops(lib: Any, x: Any) -> Any:
    def body(i: Any, total: Any) -> Any:
        _, inner = lib.while_loop(
            lambda j, a: j < i, lambda j, a: (j + 1, a + j * x), [lib.constant(0), total]
        )
        return i + 1, inner

    return lib.while_loop(lambda i, total: i < x, body, [0, 0])


def loop_begins_with_invariant(lib: Any, x: Any) -> Any:
    def body(i: Any, total: Any) -> Any:
        inner = lib.while_loop(lambda j: j > i, lambda j: j - 1, [x])
        return i + 1, total + inner

    return lib.while_loop(lambda i, total: i < x, body, [0, 0])


def plain_cond(lib: Any, x: Any) -> Any:
    return lib.cond(x > 2, lambda: x + 1, lambda: x * 2)


def cond_of_constants(lib: Any, x: Any) -> Any:
    return lib.cond(x > 2, lambda: lib.constant(1), lambda: lib.constant(2), name="choice")


def cond_passes_through(lib: Any, x: Any) -> Any:
    y = lib.constant(5)
    return lib.cond(x > 2, lambda: [x, y], lambda: [y, x])


def cond_structures(lib: Any, x: Any) -> Any:
    found = lib.cond(
        x > 2,
        lambda: {"b": [x + 1], "a": Pair(x, 1)},
        lambda: {"b": [x - 1], "a": Pair(2, x)},
    )
    return found["b"][0], found["a"].left, found["a"].right


def nested_conds(lib: Any, x: Any) -> Any:
    y = lib.constant(5)
    return lib.cond(
        x > 2,
        lambda: lib.cond(x > 4, lambda: x + y, lambda: y),
        lambda: lib.cond(x > 0, lambda: lib.constant(3), lambda: x),
    )


def cond_in_loop(lib: Any, x: Any) -> Any:
    def body(i: Any, total: Any) -> Any:
        odd = lib.equal(i % 2, 1)
        return i + 1, lib.cond(odd, lambda: total + x, lambda: total - lib.constant(1))

    return lib.while_loop(lambda i, total: i < x, body, [0, 0])


def loop_in_cond(lib: Any, x: Any) -> Any:
    def count() -> Any:
        return lib.while_loop(lambda i: i < x, lambda i: i + 2, [lib.constant(0)])

    return lib.cond(x > 2, count, lambda: x)


def loop_in_cond_in_loop(lib: Any, x: Any) -> Any:
    def body(i: Any, total: Any) -> Any:
        def count() -> Any:
            return lib.while_loop(lambda j: j < x, lambda j: j + i + 1, [lib.constant(0)])

        return i + 1, lib.cond(lib.equal(i % 2, 0), count, lambda: total)

    return lib.while_loop(lambda i, total: i < x, body, [0, 0])


def cond_in_test(lib: Any, x: Any) -> Any:
    def test(i: Any) -> Any:
        return lib.cond(i > 3, lambda: i < x, lambda: lib.constant(True))

    return lib.while_loop(test, lambda i: i + 1, [0])


def structures_in_loop(lib: Any, x: Any) -> Any:
    def body(pair: Any, table: Any) -> Any:
        return (
            Pair(pair.left + 1, pair.right + table["b"][0]),
            {"b": [table["a"]], "a": table["b"][0]},
        )

    start = [Pair(0, 0), {"b": [1], "a": x}]
    pair, table = lib.while_loop(lambda pair, table: pair.left < x, body, start)
    return pair.left, pair.right, table["a"], table["b"][0]


def loop_waits(lib: Any, x: Any) -> Any:
    gate = lib.no_op()
    with lib.control_dependencies([gate]):
        return lib.while_loop(lambda i: i < x, lambda i: i + 1, [x - 3])


def cond_waits(lib: Any, x: Any) -> Any:
    gate = lib.no_op()
    with lib.control_dependencies([gate]):
        return lib.cond(x > 2, lambda: x + 1, lambda: x)


def body_waits_inside(lib: Any, x: Any) -> Any:
    def body(i: Any) -> Any:
        with lib.control_dependencies([i + 5]):
            return i + 1

    return lib.while_loop(lambda i: i < x, body, [0])


def body_waits_outside(lib: Any, x: Any) -> Any:
    y = x * 2

    def body(i: Any) -> Any:
        with lib.control_dependencies([y]):
            return i + 1

    return lib.while_loop(lambda i: i < x, body, [0])


def branch_waits(lib: Any, x: Any) -> Any:
    def branch() -> Any:
        with lib.control_dependencies([x + 5]):
            return x + 1

    return lib.cond(x > 2, branch, lambda: x)


def branches_of_nodes(lib: Any, x: Any) -> Any:
    return lib.cond(x > 2, lambda: lib.group(x + 1), lib.no_op)


def variable_in_branch(lib: Any, x: Any) -> Any:
    v = lib.variable()
    lib.assign(v, 10)
    return lib.cond(x > 2, lambda: lib.assign_add(v, x), lambda: lib.assign_add(v, 1))


def variable_in_loop(lib: Any, x: Any) -> Any:
    v = lib.variable()
    lib.assign(v, 10)

    def body(i: Any) -> Any:
        with lib.control_dependencies([lib.assign_add(v, i)]):
            return i + 1

    after = lib.while_loop(lambda i: i < x, body, [0])
    with lib.control_dependencies([after]):
        return after, lib.identity(v)


def cases(lib: Any, x: Any) -> Any:
    return lib.case(
        [(x > 5, lambda: x + 1), (x > 2, lambda: x * 2)], default=lambda: lib.constant(-1)
    )


def plain_assert(lib: Any, x: Any) -> Any:
    with lib.control_dependencies([lib.Assert(x > -9, [x, "is small"])]):
        return x + 1


def guarded_assert(lib: Any, x: Any) -> Any:
    with lib.control_dependencies([lib.Assert(x > -9, [x > 5])]):
        return x + 1


def groups(lib: Any, x: Any) -> Any:
    with lib.device("/cpu:0"):
        a = x + 1
    with lib.device("/cpu:1"):
        b = x + 2
    with lib.control_dependencies([lib.group(a, [b, a]), lib.group(x)]):
        return x * 2


def tuples(lib: Any, x: Any) -> Any:
    return lib.tuple([x + 1, x + 2], control_inputs=[lib.no_op()])


def scopes(lib: Any, x: Any) -> Any:
    with lib.name_scope("outer"), lib.device("/cpu:0"):
        y = lib.cond(x > 2, lambda: x + 1, lambda: x)
        return lib.while_loop(lambda i: i < y, lambda i: i + y, [1])


def two_loops_share(lib: Any, x: Any) -> Any:
    first = lib.while_loop(lambda i: i < x, lambda i: i + 1, [0])
    return lib.while_loop(lambda i: i < first, lambda i: i + first, [first])


PROGRAMS: list[Callable[[Any, Any], Any]] = [
    counter,
    two_variables,
    invariants_only,
    body_returns_invariant,
    bounded,
    bounded_alone,
    nested_loops,
    loop_begins_with_invariant,
    plain_cond,
    cond_of_constants,
    cond_passes_through,
    cond_structures,
    nested_conds,
    cond_in_loop,
    loop_in_cond,
    loop_in_cond_in_loop,
    cond_in_test,
    structures_in_loop,
    loop_waits,
    cond_waits,
    body_waits_inside,
    body_waits_outside,
    branch_waits,
    branches_of_nodes,
    variable_in_branch,
    variable_in_loop,
    cases,
    plain_assert,
    guarded_assert,
    groups,
    tuples,
    scopes,
    two_loops_share,
]


# Where a node of a loop waits for one outside, we leave out an edge that another edge implies.
SAME_NODES = [program for program in PROGRAMS if program is not body_waits_outside]


def built(library: Any, program: Callable[[Any, Any], Any]) -> tuple[Any, list[str]]:
    """Return the GraphDef of a program, and the names of its results."""
    with library.as_default():
        found = program(library, library.placeholder())
    results = found if isinstance(found, (list, tuple)) else [found]
    return library.graph.as_graph_def(), [tensor.name for tensor in results]


def rows(graph_def: Any, results: list[str]) -> dict[str, Any]:
    """Return the properties that must be equal, of the nodes that results need."""
    nodes = {node.name: node for node in graph_def.node}
    found: dict[str, Any] = {}
    waiting = [name.partition(":")[0] for name in results]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        node = nodes[name]
        inputs = [item.removesuffix(":0") for item in node.input]
        waiting += [item.lstrip("^").partition(":")[0] for item in inputs]
        data = [item for item in inputs if not item.startswith("^")]
        found[name] = (node.op, node.device, data, set(inputs) - set(data), attrs_of(node))
    return found


def attrs_of(node: Any) -> dict[str, bytes]:
    """Return the attrs of a node, without values and TensorFlow's own annotations."""
    left_out = {"value", "shape", "_has_manual_control_dependencies"}
    if "Switch" not in node.op:
        # TensorFlow's op functions ask that a node be where its references are.
        left_out.add("_class")
    return {
        name: attr.SerializeToString(deterministic=True)
        for name, attr in node.attr.items()
        if name not in left_out
    }


def plain_config() -> Any:
    # With its optimizer, TensorFlow loses results of some conditionals with constant predicates.
    config = session_config()
    config.allow_soft_placement = True
    return config


def in_tensorflow(tf: Any, graph_def: Any, results: list[str], x: int) -> list[Any]:
    content = tf.compat.v1.GraphDef.FromString(graph_def.SerializeToString())
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(content, name="")
    with tf.compat.v1.Session(graph=graph, config=plain_config()) as session:
        if any(node.name == "start" for node in content.node):
            session.run("start")
        return session.run(results, {"x:0": x})


def in_graphmill(graph_def: Any, results: list[str], x: int) -> list[Any]:
    config = graphmill.ConfigProto(allow_soft_placement=True)
    with graphmill.Session(graph=graph_def.SerializeToString(), config=config) as session:
        if any(node.name == "start" for node in graph_def.node):
            session.run("start")
        return session.run(results, {"x:0": x})


def name_of(program: Callable[..., Any]) -> str:
    return program.__name__


@pytest.mark.parametrize("program", SAME_NODES, ids=name_of)
def test_the_nodes_are_tensorflows(program, tf):
    assert rows(*built(graphmill_library(), program)) == rows(
        *built(tensorflow_library(tf), program)
    )


@pytest.mark.parametrize("program", PROGRAMS, ids=name_of)
def test_each_system_runs_graphs_of_the_other(program, tf):
    ours = built(graphmill_library(), program)
    theirs = built(tensorflow_library(tf), program)
    for x in INPUTS:
        expected = in_tensorflow(tf, *theirs, x)
        for found in (
            in_tensorflow(tf, *ours, x),
            in_graphmill(*ours, x),
            in_graphmill(*theirs, x),
        ):
            assert [np.asarray(item).dtype for item in found] == [item.dtype for item in expected]
            np.testing.assert_array_equal(found, expected, err_msg=f"x={x}")


@pytest.mark.parametrize("seed", range(SEEDS))
def test_tensorflow_runs_random_programs_as_python_does(seed, tf):
    program = random_program(seed)
    graph = graphmill.Graph()
    parts = program.build(graph)
    content = graph.as_graph_def().SerializeToString()
    with tf.Graph().as_default() as theirs:
        tf.import_graph_def(tf.compat.v1.GraphDef.FromString(content), name="")
    with tf.compat.v1.Session(graph=theirs, config=plain_config()) as session:
        for x in INPUTS:
            assert parts.run(session, x) == program.expected(x), f"{program.name}, x={x}"
