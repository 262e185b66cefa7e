"""TensorFlow loads the SavedModels that graphmill saves, with both of its loaders."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import graphmill
from graphmill import ops, saved_model

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.oracle
tf = pytest.importorskip("tensorflow")


@pytest.mark.parametrize("use_resource", [True, False])
def test_tensorflow_loads_a_saved_model(tmp_path: Path, use_resource: bool) -> None:
    words = tmp_path / "words.txt"
    words.write_text("zero\none\n")
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None, 2], name="x")
        w = graphmill.Variable(np.float32([[1], [2]]), name="w", use_resource=use_resource)
        y = ops.math.mat_mul(x, w.read_value(), name="y")
        path = graph.constant(b"", name="path")
        table = ops.lookup.hash_table_v2(
            key_dtype="string", value_dtype="int64", shared_name="words"
        )
        fill = ops.lookup.initialize_table_from_text_file_v2(
            table, path, key_index=-2, value_index=-1
        )
        missing = graph.constant(np.int64(-1))
        row = ops.lookup.lookup_table_find_v2(table, graph.constant(b"one"), missing, name="row")
        init = graphmill.global_variables_initializer()
    folder = str(tmp_path / "model")
    signature = saved_model.build_signature_def({"x": x}, {"y": y, "row": row})
    with graphmill.Session(graph=graph) as session:
        session.run(init)
        saved_model.save(session, folder, signature, assets={path: words}, main_op=fill)
    values = np.float32([[1, 10]])

    loaded = tf.saved_model.load(folder)
    found = loaded.signatures["serving_default"](x=tf.constant(values))
    assert (found["y"].numpy().tolist(), found["row"].numpy()) == ([[21.0]], 1)
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        meta = tf.compat.v1.saved_model.load(session, ["serve"], folder)
        outputs = meta.signature_def["serving_default"].outputs
        fetches = [outputs["y"].name, outputs["row"].name]
        y_value, row_value = session.run(fetches, {"x:0": values})
        assert (y_value.tolist(), row_value) == ([[21.0]], 1)
        assert [v.op.name for v in tf.compat.v1.trainable_variables()] == ["w"]
