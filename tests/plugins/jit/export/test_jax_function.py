"""Graphs become pure JAX functions: jit, grad and vmap work, also through v1 loops."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops
from graphmill.files.local import LocalWriter
from graphmill.graph.formats.import_export import graph_to_graph_def
from graphmill.runtime.dead import DEAD
from graphmill.testing.differential.executors import reference_values
from graphmill.testing.generators.control_flow_graphs import structured_graph

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.jax

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def with_64_bits() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture(params=[True, False], ids=["resource", "ref"])
def loops(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Yield a session over v1 loops and a conditional with a variable, and its tensors."""
    graph = graphmill.Graph()
    with graph.as_default():
        a = graph.placeholder("float32", [], name="a")
        n = graph.placeholder("int32", [], name="n")
        w = graphmill.Variable(2.0, name="w", use_resource=request.param)
        one, start = graph.constant(1), graph.constant(0)

        def power(last: Any, factor: Any) -> Any:
            return graphmill.while_loop(
                lambda i, v: ops.math.less(i, last),
                lambda i, v: [ops.math.add_v2(i, one), ops.math.mul(v, factor)],
                [start, graph.constant(1.0)],
            )[1]

        tensors = {
            "five": power(graph.constant(5), ops.math.mul(a, w.read_value())),
            "many": power(n, a),
            "chosen": graphmill.cond(
                ops.math.greater(a, graph.constant(1.0)),
                lambda: ops.math.mul(a, a),
                lambda: ops.math.neg(a),
            ),
        }
        init = graphmill.global_variables_initializer()
    with graphmill.Session(graph=graph) as session:
        session.run(init)
        yield session, {"a": a, "n": n}, tensors


def test_v1_loops_and_conditionals_have_values_and_gradients(loops: Any) -> None:
    session, inputs, outputs = loops
    function = graphmill.export.convert(session, "jax", inputs, outputs, max_iterations=8)
    expected = session.run(outputs, {inputs["a"]: 1.5, inputs["n"]: 3})
    values = {"a": 1.5, "n": 3}
    found = jax.jit(function)(function.params, values)
    assert {name: float(value) for name, value in found.items()} == expected
    with_a = {name: lambda a, name=name: function(function.params, {"a": a, "n": 3})[name]
              for name in outputs}  # fmt: skip
    assert jax.grad(with_a["five"])(1.5) == pytest.approx(5 * 1.5**4 * 32)
    assert jax.jit(jax.grad(with_a["many"]))(1.5) == pytest.approx(3 * 1.5**2)
    assert jax.grad(with_a["chosen"])(0.5) == -1
    by_params = jax.grad(lambda params: function(params, values)["five"])(function.params)
    assert by_params["w"] == pytest.approx(5 * 2**4 * 1.5**5)
    batch = jax.vmap(with_a["many"])(np.float32([1, 2, 3]))
    assert batch.tolist() == [1, 8, 27]


def test_loop_beyond_its_bound_is_reported(loops: Any) -> None:
    session, inputs, outputs = loops
    function = graphmill.export.convert(session, "jax", inputs, outputs, max_iterations=8)
    holds = [bool(function.checked(function.params, {"a": 1.5, "n": n})[1]) for n in (3, 8, 9)]
    assert holds == [True, True, False]


def test_inner_loop_beyond_its_bound_is_reported() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        n = graph.placeholder("int32", [], name="n")
        one, zero = graph.constant(1), graph.constant(0)

        def count(last: Any, step: Any) -> Any:
            return graphmill.while_loop(
                lambda i, v: ops.math.less(i, last),
                lambda i, v: [ops.math.add_v2(i, one), step(v)],
                [zero, zero],
            )[1]

        total = count(
            graph.constant(2),
            lambda v: ops.math.add_v2(v, count(n, lambda u: ops.math.add_v2(u, one))),
        )
    with graphmill.Session(graph=graph) as session:
        function = graphmill.export.convert(
            session, "jax", {"n": n}, {"total": total}, max_iterations=4
        )
    for size, holds in ((3, True), (5, False)):
        outputs, found = function.checked({}, {"n": size})
        assert bool(found) is holds
        assert not holds or int(outputs["total"]) == 2 * size


def test_updates_of_variables_are_returned() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [2], name="x")
        w = graphmill.Variable([1.0, 2.0], name="w")
        loss = ops.math.sum(ops.math.square(ops.math.sub(w.read_value(), x)), [0])
        step = graphmill.train.GradientDescentOptimizer(0.5).minimize(loss)
        with graph.control_dependencies([step]):
            after = w.read_value()
        init = graphmill.global_variables_initializer()
    with graphmill.Session(graph=graph) as session:
        session.run(init)
        function = graphmill.export.convert(session, "jax", {"x": x}, {"after": after})
    outputs, params = function.update(function.params, {"x": [3.0, 4.0]})
    assert outputs["after"].tolist() == params["w"].tolist() == [3, 4]
    assert function.params["w"].tolist() == [1, 2]


def test_repr_of_a_program_is_short() -> None:
    with graphmill.Graph().as_default() as graph:
        x = graph.placeholder("float32", [2], name="x")
        y = x * 2.0
    with graphmill.Session(graph=graph) as session:
        program = graphmill.export.convert(session, "stablehlo", {"x": x}, {"y": y})
    assert repr(program) == "StableHlo(inputs=('x',), outputs=('y',))"


def test_nodes_without_outputs_may_be_in_a_loop() -> None:
    with graphmill.Graph().as_default() as graph:
        x = graph.placeholder("float32", [], name="x")

        def body(i: Any, v: Any) -> list[Any]:
            with graph.control_dependencies([v]):
                waits = ops.control_flow.no_op()
            with graph.control_dependencies([waits]):
                return [i + 1, v * x]

        power = graphmill.while_loop(lambda i, v: i < 3, body, [0, 1.0])[1]
    with graphmill.Session(graph=graph) as session:
        function = graphmill.export.convert(session, "jax", {"x": x}, {"power": power})
    assert float(function({}, {"x": 2.0})["power"]) == 8


@pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "ref"])
def test_conditional_that_assigns_updates_the_variable(use_resource: bool) -> None:
    with graphmill.Graph().as_default() as graph:
        p = graph.placeholder("bool", [], name="p")
        v = graphmill.Variable(2.0, name="v", use_resource=use_resource)

        def add() -> Any:
            with graph.control_dependencies([v.assign_add(3.0, read_value=False)]):
                return graph.constant(1.0)

        y = graphmill.cond(p, add, lambda: graph.constant(0.0))
        init = graphmill.global_variables_initializer()
    with graphmill.Session(graph=graph) as session:
        session.run(init)
        function = graphmill.export.convert(session, "jax", {"p": p}, {"y": y})
    for value, after in ((True, 5), (False, 2)):
        outputs, params = function.update(function.params, {"p": value})
        assert (float(outputs["y"]), float(params["v"])) == (value, after)


@pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "ref"])
def test_conditional_in_a_loop_that_assigns(use_resource: bool) -> None:
    with graphmill.Graph().as_default() as graph:
        x = graph.placeholder("float32", [], name="x")
        v = graphmill.Variable(1.0, name="v", use_resource=use_resource)

        def body(i: Any, total: Any) -> list[Any]:
            changed = graphmill.cond(
                ops.math.equal(i % 2, 0),
                lambda: v.assign_add(x) + 0.0,
                lambda: v.assign_sub(2 * x) + 0.0,
            )
            return [i + 1, total + changed]

        total = graphmill.while_loop(lambda i, _: i < 3, body, [0, 0.0])[1]
        init = graphmill.global_variables_initializer()
    with graphmill.Session(graph=graph) as session:
        session.run(init)
        function = graphmill.export.convert(session, "jax", {"x": x}, {"total": total})
        expected = float(session.run(total, {x: 5.0}))
        after = float(session.run(v))
    outputs, params = jax.jit(function.update)(function.params, {"x": np.float32(5)})
    assert (float(outputs["total"]), float(params["v"])) == (expected, after) == (3, 1)


def test_output_in_a_branch_is_refused() -> None:
    with graphmill.Graph().as_default() as graph:
        p = graph.placeholder("bool", [], name="p")
        inside: list[Any] = []

        def yes() -> Any:
            inside.append(ops.math.neg(graph.constant(1.0), name="inside"))
            return inside[0]

        y = graphmill.cond(p, yes, lambda: graph.constant(0.0))
    with graphmill.Session(graph=graph) as session, pytest.raises(errors.UnimplementedError) as e:
        graphmill.export.convert(session, "jax", {"p": p}, {"y": y, "inside": inside[0]})
    assert "the output cond/inside:0 is inside, so it may have no value" in e.value.message


@pytest.mark.parametrize("seed", [7, 11, 15, 21])
def test_random_control_flow_is_exported(seed: int, graphmill_host: Any) -> None:
    made = structured_graph(seed, graphmill_host.ops)
    expected = {
        name: value
        for name, value in reference_values(made, graphmill_host).items()
        if value is not DEAD
    }
    graph = graphmill.Graph.from_graph_def(graph_to_graph_def(made.graph))
    with graphmill.Session(graph=graph, host=graphmill_host) as session:
        inputs = {name: name for name in made.feeds}
        function = graphmill.export.convert(
            session, "jax", inputs, {name: name for name in expected}
        )
    outputs, holds = function.checked(function.params, made.feeds)
    assert bool(holds)
    assert {name: value.item() for name, value in outputs.items()} == expected


def test_all_nodes_that_cannot_be_held_are_listed() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        text = graph.placeholder("string", [None], name="text")
        upper = ops.string.string_upper(text, name="upper")
        length = ops.string.string_length(upper, name="length")
    with graphmill.Session(graph=graph) as session, pytest.raises(errors.UnimplementedError) as e:
        graphmill.export.convert(session, "jax", {"text": text}, {"length": length})
    assert "upper (StringUpper)" in e.value.message
    assert "length (StringLength)" in e.value.message


def test_wrong_names_and_modes_are_errors(loops: Any) -> None:
    session, inputs, outputs = loops
    function = graphmill.export.convert(session, "jax", inputs, outputs)
    with pytest.raises(errors.InvalidArgumentError, match=r"missing: 'n'.*unknown: 'm'"):
        function(function.params, {"a": 1.0, "m": 1})
    with pytest.raises(errors.InvalidArgumentError, match="wrong variables: missing: 'w'"):
        function({}, {"a": 1.0, "n": 1})
    with (
        jax.enable_x64(False),
        pytest.raises(errors.FailedPreconditionError, match="64-bit"),
    ):
        function(function.params, {"a": 1.0, "n": 1})
    with pytest.raises(errors.NotFoundError, match="no exporter 'jaxx'"):
        graphmill.export.convert(session, "jaxx", inputs, outputs)
    with pytest.raises(errors.InvalidArgumentError, match="at least one output"):
        graphmill.export.convert(session, "jax", inputs, {})


def test_uninitialized_variable_is_an_error() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        w = graphmill.Variable(1.0, name="w")
    with graphmill.Session(graph=graph) as session, pytest.raises(errors.OpError, match="w"):
        graphmill.export.convert(session, "jax", {}, {"w": w})


def test_saved_function_can_be_loaded_and_differentiated(loops: Any, tmp_path: Path) -> None:
    session, inputs, outputs = loops
    function = graphmill.export.convert(session, "jax", inputs, outputs, max_iterations=8)
    path, variables = function.save(str(tmp_path / "out"))
    loaded = jax.export.deserialize(bytearray((tmp_path / "out" / "function.jax").read_bytes()))
    params = dict(np.load(variables))
    assert path.endswith("function.jax")

    def many(a: Any) -> Any:
        return loaded.call(params, {"a": a, "n": np.int32(3)})["many"]

    assert jax.grad(many)(np.float32(2)) == 12


def test_stablehlo_program_computes_the_outputs(loops: Any, tmp_path: Path) -> None:
    session, inputs, outputs = loops
    program = graphmill.export.convert(session, "stablehlo", inputs, outputs)
    assert "stablehlo.while" in program.text
    loaded = jax.export.deserialize(bytearray(program.artifact))
    found = dict(zip(program.outputs, loaded.call(np.float32(1.5), np.int32(3)), strict=True))
    assert float(found["many"]) == 1.5**3
    mlir, _ = program.save(str(tmp_path / "out"))
    assert (tmp_path / "out" / "program.mlir").read_text() == program.text
    assert mlir.endswith("program.mlir")


@pytest.mark.parametrize("target", ["jax", "stablehlo"])
def test_a_full_disk_leaves_the_files_of_an_earlier_export(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [3], name="x")
        y = ops.math.neg(x)
    with graphmill.Session(graph=graph) as session:
        exported = graphmill.export.convert(session, target, {"x": x}, {"y": y})
    paths = exported.save(str(tmp_path / "out"))
    old = [Path(path).read_bytes() for path in paths]
    write = LocalWriter.write

    def write_first(self: LocalWriter, chunk: Any) -> None:
        if self.path == paths[1]:
            raise errors.ResourceExhaustedError(f"{self.path}: No space left on device")
        write(self, b"new")

    monkeypatch.setattr(LocalWriter, "write", write_first)
    with pytest.raises(errors.ResourceExhaustedError, match="No space left"):
        exported.save(str(tmp_path / "out"))
    assert [Path(path).read_bytes() for path in paths] == old
    assert len(list((tmp_path / "out").iterdir())) == 2


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({}, "input 'x' has an unknown size"),
        ({"x": (2, 4)}, r"shape \[2, 4\] does not fit input 'x' of shape \[-1, 3\]"),
        ({"x": (-1, 3)}, "does not fit"),
        ({"y": (2, 3)}, "no input 'y'"),
    ],
)
def test_shapes_are_checked(shapes: Any, message: str) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None, 3], name="x")
        y = ops.math.neg(x)
    with (
        graphmill.Session(graph=graph) as session,
        pytest.raises(errors.InvalidArgumentError, match=message),
    ):
        graphmill.export.convert(session, "stablehlo", {"x": x}, {"y": y}, shapes=shapes)


def test_repr_names_inputs_and_outputs() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None, 3], name="x")
        y = ops.math.neg(x)
    with graphmill.Session(graph=graph) as session:
        function = graphmill.export.convert(session, "jax", {"x": x}, {"y": y})
    shown = "<JaxFunction of 0 params and {'x': float32 (None, 3)}, with the outputs 'y'>"
    assert repr(function) == shown
