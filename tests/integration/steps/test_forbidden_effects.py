"""A session refuses kernels with effects that its configuration forbids."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import dtypes, errors, ops
from graphmill.ops.definition.op_def import ArgDef, OpDef
from graphmill.testing.case_graph import GraphMaker
from graphmill.testing.case_nodes import parse_function

if TYPE_CHECKING:
    from collections.abc import Callable

    Build = Callable[[graphmill.Graph], Any]

DIGITS = Path(__file__).parents[3] / "examples" / "digits"


def run(build: Build, *forbidden: str, **options: Any) -> Any:
    graph = graphmill.Graph()
    with graph.as_default():
        fetch = build(graph)
    config = {"graphmill": {"forbid_effects": list(forbidden), **options}}
    with graphmill.Session(graph=graph, config=config) as session:
        return session.run(fetch)


NODES: dict[str, Build] = {
    "fs.read": lambda _: ops.io.read_file("there.txt", name="bad"),
    "fs.write": lambda _: ops.io.write_file("there.txt", "text", name="bad"),
    "python": lambda _: ops.functional.py_func([1.0], token="f", Tout=["float32"], name="bad"),
    "clock": lambda _: ops.logging.timestamp(name="bad"),
    "rng": lambda _: ops.random.random_uniform([2], dtype="float32", name="bad"),
    "log": lambda _: ops.logging.print_v2("text", name="bad"),
    "state": lambda _: ops.state.var_handle_op(dtype="float32", shape=[], name="bad"),
}


@pytest.mark.parametrize("effect", NODES)
def test_node_op_effect_and_way_out_are_named(effect: str) -> None:
    with pytest.raises(errors.PermissionDeniedError, match=r"graphmill\.forbid_effects") as caught:
        run(NODES[effect], effect)
    assert caught.value.node == "bad"
    assert caught.value.op_type in str(caught.value)
    assert repr(effect) in caught.value.message


def test_allowed_effects_run() -> None:
    assert run(NODES["rng"], "fs.read", "fs.write", "net", "process", "python").shape == (2,)


@pytest.mark.parametrize("jit", ["off", "tiered", "eager"])
def test_the_mode_of_compilation_changes_nothing(jit: str) -> None:
    def build(graph: graphmill.Graph) -> Any:
        return ops.math.tanh(ops.random.random_uniform([2], dtype="float32")) + 1.0

    with pytest.raises(errors.PermissionDeniedError, match="'rng'"):
        run(build, "rng", jit=jit)


def test_function_body_effects_are_checked_at_first_call() -> None:
    maker = GraphMaker(graphmill.default_host().ops)
    maker.function(parse_function("f(x: string) -> (string): y = ReadFile(x); return y"))
    maker.graph_def.node.add(name="x", op="Placeholder").attr["dtype"].type = dtypes.string.enum
    maker.graph_def.node.add(name="call", op="f", input=["x"])
    config = {"graphmill": {"forbid_effects": ["fs.read"]}}
    with graphmill.Session(graph=maker.graph_def, config=config) as session:
        assert session.run("x:0", {"x:0": "a"}) == b"a"
        with pytest.raises(errors.PermissionDeniedError, match="may read files"):
            session.run("call:0", {"x:0": "a"})


def test_an_effect_that_only_the_kernel_declares_counts() -> None:
    class Plugin:
        @graphmill.hookimpl
        def graphmill_register_ops(self, ops: Any) -> None:
            ops.add(OpDef("Mine>Ask", output_args=(ArgDef("y", dtypes.float32),)))

        @graphmill.hookimpl
        def graphmill_register_kernels(self, kernels: Any) -> None:
            @graphmill.kernel("Mine>Ask", effects={"net"})
            def ask(xp: Any) -> Any:
                return np.float32(1)

            kernels.add(ask)

    host = graphmill.Host(plugins=[Plugin()])
    graph = graphmill.Graph(ops=host.ops)
    graph.create_op("Mine>Ask", name="bad")
    config = {"graphmill": {"forbid_effects": ["net"]}}
    with (
        graphmill.Session(graph=graph, host=host, config=config) as session,
        pytest.raises(errors.PermissionDeniedError, match="communicate with other machines"),
    ):
        session.run("bad:0")


def test_an_op_without_a_kernel_is_refused_for_its_effect() -> None:
    graph_def = graphmill.GraphDef(node=[graphmill.NodeDef(name="reader", op="LMDBReader")])
    config = {"graphmill": {"forbid_effects": ["fs.read"]}}
    with (
        graphmill.Session(graph=graph_def, config=config) as session,
        pytest.raises(errors.PermissionDeniedError, match=r"LMDBReader.*fs\.read") as raised,
    ):
        session.run([], targets=["reader"])
    assert raised.value.node == "reader"


def test_unknown_effect_is_refused() -> None:
    with pytest.raises(errors.InvalidArgumentError, match=r"'fs.raed'; did you mean 'fs.read'"):
        run(NODES["rng"], "fs.raed")


def test_loaded_model_may_read_only_its_own_variables() -> None:
    config = {"graphmill": {"forbid_effects": ["fs.read", "fs.write", "net", "python"]}}
    with graphmill.saved_model.load(DIGITS / "saved_model_tf1", config=config) as model:
        graph = model.session.graph
        restore = next(node for node in graph.nodes if node.op == "RestoreV2")
        with pytest.raises(errors.PermissionDeniedError, match="may read files"):
            model.session.run(f"{restore.name}:0", {restore.sources[0][0].name: "elsewhere"})
