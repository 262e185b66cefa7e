"""SavedModels that are saved can be loaded, and nothing remains if saving fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import graphmill
from graphmill import ops, saved_model
from graphmill.errors import (
    AlreadyExistsError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    UnimplementedError,
)

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("google_crc32c")


class Program:
    """`z = x @ w + b`, and a table of words that is filled from a file."""

    def __init__(self) -> None:
        self.graph = graphmill.Graph()
        with self.graph.as_default():
            self.x = self.graph.placeholder("float32", [None, 2], name="x")
            self.w = graphmill.Variable(np.float32([[1], [2]]), name="w")
            self.b = graphmill.Variable(np.float32(3), name="b", trainable=False)
            product = ops.math.mat_mul(self.x, self.w.read_value())
            self.z = ops.math.add_v2(product, self.b.read_value(), name="z")
            self.vocabulary = self.graph.constant(b"", name="vocabulary")
            table = ops.lookup.hash_table_v2(
                key_dtype="string", value_dtype="int64", shared_name="words"
            )
            self.fill = ops.lookup.initialize_table_from_text_file_v2(
                table, self.vocabulary, key_index=-2, value_index=-1
            )
            word = self.graph.placeholder("string", [], name="word")
            missing = self.graph.constant(np.int64(-1))
            self.row = ops.lookup.lookup_table_find_v2(table, word, missing, name="row")
            self.word = word
            self.init = graphmill.global_variables_initializer()

    def session(self) -> graphmill.Session:
        session = graphmill.Session(graph=self.graph)
        session.run([], targets=[self.init])
        session.run(self.w.assign(np.float32([[10], [20]])))
        return session

    @property
    def signature(self) -> graphmill.proto.SignatureDef:
        return saved_model.build_signature_def({"x": self.x}, {"z": self.z})


@pytest.fixture
def program() -> Program:
    return Program()


def test_values_of_variables_are_saved(program: Program, tmp_path: Path) -> None:
    target = tmp_path / "new" / "model"
    with program.session() as session:
        assert saved_model.save(session, target, program.signature) == str(target)
    assert sorted(path.name for path in target.iterdir()) == ["saved_model.pb", "variables"]
    with saved_model.load(target) as model:
        assert model.signatures["serving_default"](x=[[1, 1]])["z"].tolist() == [[33.0]]
        (spec,) = model.signatures["serving_default"].inputs["x"].parts
        assert (spec.dtype.name, tuple(spec.shape)) == ("float32", (-1, 2))
    assert [path.name for path in target.parent.iterdir()] == ["model"]


def test_assets_are_copied_and_fed_to_the_initializer(program: Program, tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("zero\none\n")
    signatures = {
        "serving_default": program.signature,
        "rows": saved_model.build_signature_def({"word": program.word}, {"row": program.row}),
    }
    with program.session() as session:
        saved_model.save(
            session,
            tmp_path / "model",
            signatures,
            assets={program.vocabulary: words},
            main_op=program.fill,
            tags=["serve", "cpu"],
        )
    words.unlink()
    with saved_model.load(tmp_path / "model", tags=["cpu", "serve"]) as model:
        assert model.signatures["rows"](word=b"one")["row"] == 1


def test_a_graph_without_variables_is_saved(tmp_path: Path) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        y = ops.math.neg(x, name="y")
    with graphmill.Session(graph=graph) as session:
        saved_model.simple_save(session, tmp_path / "model", {"x": x}, {"y": y})
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["saved_model.pb"]
    with saved_model.load(tmp_path / "model") as model:
        assert model.signatures["serving_default"](x=2.0)["y"] == -2.0


def test_an_existing_folder_is_not_changed(program: Program, tmp_path: Path) -> None:
    target = tmp_path / "model"
    target.mkdir()
    (target / "mine").write_text("kept")
    with program.session() as session, pytest.raises(AlreadyExistsError, match="exists already"):
        saved_model.save(session, target, program.signature)
    assert [path.name for path in target.iterdir()] == ["mine"]


def test_nothing_remains_if_saving_fails(program: Program, tmp_path: Path) -> None:
    target = tmp_path / "model"
    empty = graphmill.Session(graph=program.graph)  # its variables have no values
    with empty, pytest.raises((FailedPreconditionError, NotFoundError)):
        saved_model.save(empty, target, program.signature)
    assets = {program.vocabulary: tmp_path / "words.txt"}
    with program.session() as session, pytest.raises(NotFoundError, match=r"words\.txt"):
        saved_model.save(session, target, program.signature, assets=assets)
    assert list(tmp_path.iterdir()) == []


def test_signatures_and_assets_must_belong_to_the_graph(program: Program, tmp_path: Path) -> None:
    other = Program()
    with program.session() as session:
        signature = program.signature
        signature.outputs["z"].name = "elsewhere:0"
        with pytest.raises(InvalidArgumentError, match="'elsewhere:0' of 'z' in signature 'serve'"):
            saved_model.save(session, tmp_path / "model", {"serve": signature})
        signature.outputs["z"].coo_sparse.values_tensor_name = "nowhere:0"
        with pytest.raises(InvalidArgumentError, match="'nowhere:0' of 'z'"):
            saved_model.save(session, tmp_path / "model", {"serve": signature})
        foreign = {other.vocabulary: "a.txt"}
        with pytest.raises(InvalidArgumentError, match=r"asset 'a\.txt' is not in"):
            saved_model.save(session, tmp_path / "model", program.signature, assets=foreign)
        alike = {program.vocabulary: "b/a.txt", program.word: "a.txt"}
        with pytest.raises(InvalidArgumentError, match=r"two assets are named 'a\.txt'"):
            saved_model.save(session, tmp_path / "model", program.signature, assets=alike)
        with pytest.raises(UnimplementedError, match="is a URL"):
            saved_model.save(session, "memory://model", program.signature)
    with pytest.raises(InvalidArgumentError, match="at least one output"):
        saved_model.build_signature_def({"x": program.x}, {})
    with pytest.raises(InvalidArgumentError, match="'x' is a str, expected a tensor"):
        saved_model.build_signature_def({"x": "x:0"}, {"z": program.z})


def test_a_signature_tells_scalars_from_tensors_of_unknown_rank() -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        scalar = graph.placeholder("float32", [], name="scalar")
        unknown = graph.placeholder("float32", name="unknown")
    definition = saved_model.build_signature_def({"s": scalar}, {"u": unknown})
    assert definition.inputs["s"].HasField("tensor_shape")
    assert not definition.inputs["s"].tensor_shape.unknown_rank
    assert definition.outputs["u"].tensor_shape.unknown_rank
