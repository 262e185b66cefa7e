"""The exporter `saved_model` writes one signature with its variables and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import graphmill
from graphmill import errors, ops
from graphmill.export import convert

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("google_crc32c")


@pytest.mark.parametrize("use_resource", [True, False])
def test_variables_and_names_are_kept(use_resource: bool, tmp_path: Path) -> None:
    with graphmill.Graph().as_default() as graph:
        x = graph.placeholder("float32", [None, 2], name="x")
        w = graphmill.Variable(np.float32([[1], [2]]), name="layer/w", use_resource=use_resource)
        y = ops.math.mat_mul(x, w, name="y")
        ops.math.mat_mul(w, w, transpose_b=True, name="unused")
    with graphmill.Session(graph=graph) as session:
        session.run(graphmill.global_variables_initializer(graph))
        folder = tmp_path / "model"
        assert convert(session, "saved_model", {"rows": x}, {"y": y}).save(folder) == [str(folder)]
    assert graphmill.train.list_variables(folder / "variables" / "variables") == [
        ("layer/w", (2, 1))
    ]
    with graphmill.saved_model.load(folder) as model:
        assert model.signatures["serving_default"]([[1, 1]])["y"].tolist() == [[3]]
        assert model.signatures["serving_default"].inputs["rows"].parts[0].shape == (-1, 2)
        assert not model.session.graph.has_node("unused")


def test_repr_names_inputs_and_outputs() -> None:
    with graphmill.Graph().as_default() as graph:
        x = graph.placeholder("float32", [], name="x")
        y = x * 2.0
    with graphmill.Session(graph=graph) as session:
        exported = convert(session, "saved_model", {"in": x}, {"out": y})
    assert repr(exported) == "<SavedModelExport of 0 variables: in -> out>"


def test_tables_are_filled(tmp_path: Path) -> None:
    with graphmill.Graph().as_default() as graph:
        word = graph.placeholder("string", [None], name="word")
        table = ops.lookup.hash_table_v2(key_dtype="string", value_dtype="int64", name="table")
        fill = ops.lookup.initialize_table_v2(table, [b"a", b"b"], np.int64([5, 6]))
        row = ops.lookup.lookup_table_find_v2(table, word, np.int64(-1), name="row")
    with graphmill.Session(graph=graph) as session:
        with pytest.raises(
            errors.UnimplementedError,
            match=r"1 tables.*run their initializers.*\n  table \(HashTableV2\)",
        ):
            convert(session, "saved_model", {"word": word}, {"row": row})
        session.run([], targets=[fill])
        convert(session, "saved_model", {"word": word}, {"row": row}).save(tmp_path / "model")
    with graphmill.saved_model.load(tmp_path / "model") as model:
        assert model.signatures["serving_default"]([b"b", b"?"])["row"].tolist() == [6, -1]


def test_loop_is_kept(tmp_path: Path) -> None:
    with graphmill.Graph().as_default() as graph:
        n = graph.placeholder("int32", [], name="n")
        w = graphmill.Variable(2.0, name="w")
        one = graph.constant(1)
        _, power = graphmill.while_loop(
            lambda i, value: ops.math.less(i, n),
            lambda i, value: [ops.math.add_v2(i, one), ops.math.mul(value, w.read_value())],
            [graph.constant(0), graph.constant(1.0)],
        )
    with graphmill.Session(graph=graph) as session:
        session.run(graphmill.global_variables_initializer(graph))
        convert(session, "saved_model", {"n": n}, {"power": power}).save(tmp_path / "model")
    with graphmill.saved_model.load(tmp_path / "model") as model:
        assert model.signatures["serving_default"](5)["power"] == 32
