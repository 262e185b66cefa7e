"""`freeze` makes variables constants, fills tables, and lists all nodes that it cannot freeze."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors, files, ops
from graphmill import functions as F
from graphmill.export import freeze, freeze_model

if TYPE_CHECKING:
    from graphmill.export import FrozenModel

ROWS = np.float32([[1, 2], [3, 4], [5, 6]])


@pytest.fixture
def digits() -> Path:
    """Return the folder of the example's models."""
    return Path(__file__).parents[3] / "examples" / "digits"


def run(frozen: FrozenModel, fetch: str, feeds: Any = None) -> Any:
    graph = graphmill.Graph.from_graph_def(frozen.graph_def)
    with graphmill.Session(graph=graph) as session:
        return session.run(fetch, feeds)


def op_names(frozen: FrozenModel) -> set[str]:
    return {node.op for node in frozen.graph_def.node}


def frozen_of(graph: graphmill.Graph, outputs: Any, inputs: Any = None) -> FrozenModel:
    with graphmill.Session(graph=graph) as session:
        if graph.variables:
            session.run(graphmill.global_variables_initializer(graph))
        return freeze(session, inputs or {}, outputs)


@pytest.mark.parametrize("use_resource", [True, False])
def test_variable_becomes_a_constant(use_resource: bool) -> None:
    with graphmill.Graph().as_default() as graph:
        x = graph.placeholder("float32", [None, 3], name="x")
        w = graphmill.Variable(ROWS, name="w", use_resource=use_resource)
        y = ops.math.mat_mul(x, w, name="y")
        ops.math.mat_mul(y, y, name="unused")
    frozen = frozen_of(graph, {"y": y}, {"x": x})
    assert op_names(frozen) == {"Placeholder", "Const", "Identity", "MatMul"}
    assert run(frozen, "y:0", {"x:0": [[1, 1, 1]]}).tolist() == [[9, 12]]
    assert "w" in {node.name for node in frozen.graph_def.node}


def test_rows_and_shapes_of_a_variable_are_read() -> None:
    with graphmill.Graph().as_default() as graph:
        w = graphmill.Variable(ROWS, name="w")
        rows = ops.state.resource_gather(w.handle, [2, 0], dtype="float32", name="rows")
        one = ops.state.resource_gather_nd(w.handle, [[1, 1]], dtype="float32", name="one")
        shape = ops.state.variable_shape(w.handle, name="shape")
        has_value = ops.state.var_is_initialized_op(w.handle, name="has_value")
    frozen = frozen_of(graph, {"a": rows, "b": one, "c": shape, "d": has_value})
    values = run(frozen, ["rows:0", "one:0", "shape:0", "has_value:0"])
    assert [np.asarray(value).tolist() for value in values] == [[[5, 6], [1, 2]], [4], [3, 2], True]


@pytest.mark.parametrize("use_resource", [True, False])
def test_loop_and_conditional_read_a_variable(use_resource: bool) -> None:
    with graphmill.Graph().as_default() as graph:
        n = graph.placeholder("int32", [], name="n")
        w = graphmill.Variable(2.0, name="w", use_resource=use_resource)
        _, power = graphmill.while_loop(
            lambda i, value: ops.math.less(i, n),
            lambda i, value: [
                ops.math.add_v2(i, graph.constant(1)),
                ops.math.mul(value, w.read_value()),
            ],
            [graph.constant(0), graph.constant(1.0)],
        )
        chosen = graphmill.cond(
            ops.math.greater(n, graph.constant(2)),
            lambda: w.read_value(),
            lambda: graph.constant(-1.0),
        )
    outputs = {"power": power, "chosen": chosen}
    frozen = frozen_of(graph, outputs, {"n": n})
    assert not any("Ref" in op or "Var" in op for op in op_names(frozen))
    assert run(frozen, [power.name, chosen.name], {"n:0": 3}) == [8.0, 2.0]
    assert run(frozen, [power.name, chosen.name], {"n:0": 1}) == [2.0, -1.0]


def table_graph() -> graphmill.Graph:
    graph = graphmill.Graph()
    with graph.as_default():
        word = graph.placeholder("string", [None], name="word")
        table = ops.lookup.hash_table_v2(
            key_dtype="string", value_dtype="int64", shared_name="words", name="table"
        )
        keys = graph.constant([b"a", b"b"], name="k")
        ops.lookup.initialize_table_v2(table, keys, np.int64([5, 6]), name="fill")
        ops.lookup.lookup_table_find_v2(table, word, np.int64(-1), name="row")
    return graph


def test_table_is_filled_without_an_initializer(tmp_path: Path) -> None:
    graph = table_graph()
    with graphmill.Session(graph=graph) as session:
        session.run([], targets=["fill"])
        frozen = freeze(session, {"word": "word:0"}, {"row": "row:0"})
    graph = graphmill.Graph.from_graph_def(frozen.graph_def)
    with graphmill.Session(graph=graph) as session:
        for _ in range(2):
            assert session.run("row:0", {"word:0": [b"b", b"?"]}).tolist() == [6, -1]
    pytest.importorskip("google_crc32c")
    folder = frozen.save(tmp_path / "model")
    with graphmill.saved_model.load(folder) as model:
        assert model.signatures["serving_default"]([b"a"])["row"].tolist() == [5]


def test_one_error_lists_all_nodes_that_cannot_be_frozen() -> None:
    graph = table_graph()
    with graph.as_default():
        v = graphmill.Variable(1.0, name="v")
        count = v.assign_add(1.0)
        queue = ops.data_flow.fifo_queue_v2(component_types=["float32"], name="queue")
        (item,) = ops.data_flow.queue_dequeue_v2(queue, component_types=["float32"])
        ref = graphmill.Variable(1.0, name="ref", use_resource=False)
        changed = ops.state.assign(ref.handle, 2.0, name="change")
    with graphmill.Session(graph=graph) as session:
        session.run([v.initializer])
        outputs = {"count": count, "item": item, "row": "row:0", "changed": changed}
        with pytest.raises(errors.UnimplementedError) as caught:
            freeze(session, {"word": "word:0"}, outputs)
    lines = str(caught.value).splitlines()
    assert caught.value.__notes__ == [
        "try: outputs that do not need these nodes (--fetch, fetches=)"
    ]
    assert lines[0].endswith("nodes cannot be frozen:")
    expected = {
        "ref (variable)": "uninitialized",
        "table (table)": "not initialized",
        "AssignAddVariableOp (AssignAddVariableOp)": "it changes a variable",
        "queue (FIFOQueueV2)": "its state has no constant form",
    }
    for start, reason in expected.items():
        assert any(start in line and reason in line for line in lines), (start, lines)


def test_input_that_is_not_a_placeholder_becomes_one() -> None:
    with graphmill.Graph().as_default() as graph:
        x = graph.placeholder("float32", [None, 2], name="x")
        middle = ops.math.mul(x, x, name="middle")
        y = ops.math.add_v2(middle, middle, name="y")
    frozen = frozen_of(graph, {"y": y}, {"m": middle})
    assert {node.name: node.op for node in frozen.graph_def.node} == {
        "middle": "Placeholder",
        "y": "AddV2",
    }
    (placeholder,) = (node for node in frozen.graph_def.node if node.name == "middle")
    sizes = [dim.size for dim in placeholder.attr["shape"].shape.dim]
    assert sizes == [-1, 2]


def test_default_from_a_dataset_is_left_out() -> None:
    """A program that trains on a dataset and is fed afterwards has such inputs."""
    with graphmill.Graph().as_default() as graph:
        rows = graphmill.data.Dataset.range(3).map(lambda x: F.cast(x, "float32"))
        row = rows.make_one_shot_iterator().get_next()
        x = F.placeholder_with_default(row, [], name="x")
        rate = F.placeholder_with_default(2.0, [], name="rate")
        y = ops.math.mul(x, rate, name="y")
    with graphmill.Session(graph=graph) as session:
        frozen = graphmill.export.freeze(session, {"x": x, "rate": rate}, {"y": y})
    assert repr(frozen) == f"<FrozenModel of {len(frozen.graph_def.node)} nodes: serving_default>"
    kinds = {node.name: node.op for node in frozen.graph_def.node}
    assert (kinds["x"], kinds["rate"]) == ("Placeholder", "PlaceholderWithDefault")
    with graphmill.Session(graph=graphmill.Graph.from_graph_def(frozen.graph_def)) as session:
        assert session.run("y:0", {"x:0": 3.0}) == 6


def test_colocation_with_a_removed_node_is_dropped() -> None:
    with graphmill.Graph().as_default() as graph:
        other = graph.constant(1.0, name="other")
        with graph.colocate_with(other.op):
            y = graph.constant(2.0, name="y")
        z = ops.array.identity(y, name="z")
    frozen = frozen_of(graph, {"z": z})
    assert all("_class" not in node.attr for node in frozen.graph_def.node)


def test_unknown_tensor_is_named_with_near_ones() -> None:
    with graphmill.Graph().as_default() as graph:
        graph.constant(1.0, name="logits")
    with (
        graphmill.Session(graph=graph) as session,
        pytest.raises(errors.NotFoundError, match="logits"),
    ):
        freeze(session, {}, {"y": "logit:0"})


def test_functions_have_no_nodes_of_their_boundaries(digits: Path) -> None:
    pytest.importorskip("google_crc32c")
    functions = freeze_model(digits / "saved_model_tf2").graph_def.library.function
    assert len(functions) == 2
    ops_of_functions = {node.op for function in functions for node in function.node_def}
    assert ops_of_functions.isdisjoint({"_Arg", "_Retval", "ReadVariableOp"})


@pytest.mark.parametrize("name", ["saved_model_tf1", "saved_model_tf2"])
@pytest.mark.parametrize("form", ["frozen.pb", "frozen.pbtxt", "frozen"])
def test_saved_models_are_frozen(digits: Path, tmp_path: Path, name: str, form: str) -> None:
    pytest.importorskip("google_crc32c")
    image = np.linspace(0, 1, 128, dtype=np.float32).reshape(2, 8, 8, 1)
    with graphmill.saved_model.load(digits / name) as model:
        expected = model.signatures["serving_default"](image)
    frozen = freeze_model(digits / name)
    out = tmp_path / form
    if "." in form:
        frozen.write(out)
        outputs = frozen.signatures["serving_default"].outputs
        image_name = frozen.signatures["serving_default"].inputs["image"].name
        with graphmill.Session(graph=str(out)) as session:
            found = {
                key: session.run(info.name, {image_name: image}) for key, info in outputs.items()
            }
    else:
        with graphmill.saved_model.load(frozen.save(out)) as model:
            found = model.signatures["serving_default"](image)
    for key, value in expected.items():
        assert np.array_equal(found[key], value)


def test_full_disk_keeps_the_old_file(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "model.pb"
    out.write_text("old")

    def write(self: files.LocalWriter, chunk: Any) -> None:
        raise errors.ResourceExhaustedError(f"{self.path}: No space left on device")

    frozen = freeze_model(digits / "digits_frozen.pb")
    monkeypatch.setattr(files.LocalWriter, "write", write)
    with pytest.raises(errors.ResourceExhaustedError, match="No space left"):
        frozen.write(out)
    assert out.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["model.pb"]
    with pytest.raises(errors.ResourceExhaustedError, match="No space left"):
        frozen.save(tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["model.pb"]
