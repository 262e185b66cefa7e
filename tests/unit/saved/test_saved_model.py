"""SavedModels load with variables, assets, signatures; bad ones raise typed errors (clause G2)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from google.protobuf import text_format

from graphmill import dtypes, errors, proto, saved_model
from graphmill.saved import checkpoint
from graphmill.saved.saved_model import load
from graphmill.session.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable

pytest.importorskip("google_crc32c")

FLOAT, STRING, INT64 = dtypes.float32.enum, dtypes.string.enum, dtypes.int64.enum
WEIGHTS = np.array([2, 3, 4], np.float32)


class Maker:
    """Writes a small SavedModel as TensorFlow 1 does: y = x * w, s = the text of an asset."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model = proto.SavedModel(saved_model_schema_version=1)

    def meta_graph(self, *tags: str, scale: float = 1.0) -> Any:
        meta = self.model.meta_graphs.add()
        meta.meta_info_def.tags.extend(tags)
        graph = meta.graph_def
        graph.versions.producer = 1395
        x = self.node(graph, "x", "Placeholder", dtype=FLOAT)
        x.attr["shape"].shape.dim.add(size=3)
        w = self.node(graph, "w", "VariableV2", dtype=FLOAT)
        w.attr["shape"].shape.dim.add(size=3)
        self.node(graph, "w/read", "Identity", "w", T=FLOAT)
        self.node(graph, "y", "Mul", "x", "w/read", T=FLOAT)
        self.constant(graph, "scale", np.array(scale, np.float32))
        self.node(graph, "z", "Mul", "y", "scale", T=FLOAT)
        self.saver(meta)
        signature = meta.signature_def["serving_default"]
        signature.method_name = "tensorflow/serving/predict"
        self.info(signature.inputs["x"], "x:0", (3,))
        self.info(signature.outputs["y"], "y:0", (3,))
        self.info(signature.outputs["z"], "z:0", (3,))
        return meta

    def node(self, graph: Any, name: str, op: str, *inputs: str, **types: int) -> Any:
        node = graph.node.add(name=name, op=op, input=inputs)
        for attr, enum in types.items():
            node.attr[attr].type = enum
        return node

    def constant(self, graph: Any, name: str, value: Any) -> Any:
        node = graph.node.add(name=name, op="Const")
        tensor = node.attr["value"].tensor
        if isinstance(value, list):
            tensor.dtype = STRING
            tensor.string_val.extend(value)
            tensor.tensor_shape.dim.add(size=len(value))
        elif isinstance(value, bytes):
            tensor.dtype = STRING
            tensor.string_val.append(value)
        else:
            tensor.dtype = FLOAT
            tensor.float_val.append(float(value))
        node.attr["dtype"].type = tensor.dtype
        return node

    def saver(self, meta: Any) -> None:
        graph = meta.graph_def
        self.constant(graph, "save/Const", b"model")
        self.constant(graph, "save/names", [b"w"])
        self.constant(graph, "save/slices", [b""])
        inputs = ("save/Const", "save/names", "save/slices")
        restore = self.node(graph, "save/RestoreV2", "RestoreV2", *inputs)
        restore.attr["dtypes"].list.type.append(FLOAT)
        self.node(graph, "save/Assign", "Assign", "w", "save/RestoreV2", T=FLOAT)
        self.node(graph, "save/restore_all", "NoOp", "^save/Assign")
        meta.saver_def.filename_tensor_name = "save/Const:0"
        meta.saver_def.restore_op_name = "save/restore_all"

    def asset(self, meta: Any, filename: str, *, in_collection: bool = False) -> None:
        """Add an asset whose text the initializer assigns to a variable `s`."""
        graph = meta.graph_def
        self.constant(graph, "asset", b"")
        s = self.node(graph, "s", "VariableV2", dtype=STRING)
        s.attr["shape"].shape.SetInParent()
        self.node(graph, "read", "ReadFile", "asset")
        self.node(graph, "s/Assign", "Assign", "s", "read", T=STRING)
        self.node(graph, "init", "NoOp", "^s/Assign")
        definition = proto.AssetFileDef(filename=filename)
        definition.tensor_info.name = "asset:0"
        if in_collection:
            packed = meta.collection_def["saved_model_assets"].any_list.value.add()
            packed.type_url = "type.googleapis.com/tensorflow.AssetFileDef"
            packed.value = definition.SerializeToString()
            meta.collection_def["legacy_init_op"].node_list.value.append("init")
        else:
            meta.asset_file_def.append(definition)
            outputs = meta.signature_def["__saved_model_init_op"].outputs
            outputs["__saved_model_init_op"].name = "init"

    def info(self, info: Any, tensor: str, shape: tuple[int, ...], dtype: int = FLOAT) -> None:
        info.name, info.dtype = tensor, dtype
        for size in shape:
            info.tensor_shape.dim.add(size=size)

    def write(self, *, variables: bool = True, text: bool = False) -> str:
        self.folder.mkdir(exist_ok=True)
        if text:
            content = text_format.MessageToString(self.model)
            (self.folder / "saved_model.pbtxt").write_text(content)
        else:
            (self.folder / "saved_model.pb").write_bytes(self.model.SerializeToString())
        if variables:
            prefix = self.folder / "variables" / "variables"
            checkpoint.save_checkpoint(prefix, {"w": WEIGHTS})
        return str(self.folder)


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path / "model")


X = np.ones(3, np.float32)


def test_variables_are_restored_and_signatures_called(maker: Maker) -> None:
    maker.meta_graph("serve", scale=10)
    with load(maker.write()) as model:
        outputs = model.signatures["serving_default"](x=X)
        assert list(outputs) == ["y", "z"]
        np.testing.assert_array_equal(outputs["y"], WEIGHTS)
        np.testing.assert_array_equal(outputs["z"], 10 * WEIGHTS)
        np.testing.assert_array_equal(model.session.run("w:0"), WEIGHTS)
        assert model.tags == {"serve"}
        assert model.meta_graph.saver_def.restore_op_name == "save/restore_all"


def test_a_model_in_text_form_is_loaded(maker: Maker) -> None:
    maker.meta_graph("serve")
    with load(maker.write(text=True)) as model:
        np.testing.assert_array_equal(model.signatures["serving_default"](x=X)["y"], WEIGHTS)


def test_the_public_module_has_load() -> None:
    assert saved_model.load is load


def test_close_closes_the_session(maker: Maker) -> None:
    maker.meta_graph("serve")
    model = load(maker.write())
    model.close()
    model.close()
    with pytest.raises(errors.CancelledError):
        model.signatures["serving_default"](x=X)


# Tags


@pytest.mark.parametrize(
    ("tags", "scale"), [(None, 1), ("serve", 1), (["gpu", "serve"], 2), ({"train"}, 3)]
)
def test_tags_choose_the_meta_graph(maker: Maker, tags: Any, scale: float) -> None:
    maker.meta_graph("serve", "gpu", scale=2)
    maker.meta_graph("serve", scale=1)
    maker.meta_graph("train", scale=3)
    with load(maker.write(), tags) as model:
        z = model.signatures["serving_default"](x=X)["z"]
        np.testing.assert_array_equal(z, scale * WEIGHTS)


def test_wrong_tags_lists_alternatives(maker: Maker) -> None:
    maker.meta_graph("serve", "gpu")
    maker.meta_graph("train")
    path = maker.write()
    for tags in ("serve", [], ["serve", "gpu", "x"]):
        with pytest.raises(errors.NotFoundError, match=r"\{'gpu', 'serve'\}, \{'train'\}"):
            load(path, tags)
    with pytest.raises(errors.NotFoundError, match="choose one by tags="):
        load(path)


def test_the_only_meta_graph_needs_no_tags(maker: Maker) -> None:
    maker.meta_graph("whatever")
    with load(maker.write()) as model:
        assert model.tags == {"whatever"}


# Assets and initializer


@pytest.mark.parametrize("in_collection", [True, False])
def test_the_initializer_is_given_the_assets(maker: Maker, in_collection: bool) -> None:
    maker.asset(maker.meta_graph("serve"), "vocab.txt", in_collection=in_collection)
    path = maker.write()
    (maker.folder / "assets").mkdir()
    (maker.folder / "assets" / "vocab.txt").write_bytes(b"a b c")
    with load(path) as model:
        assert model.session.run("s:0") == b"a b c"


@pytest.mark.parametrize(
    "filename", ["/etc/passwd", "../saved_model.pb", "a/../../b", "..\\x", "c:/x", "gs://x/y"]
)
@pytest.mark.parametrize("in_collection", [True, False])
def test_assets_outside_the_model_are_refused(
    maker: Maker, filename: str, in_collection: bool
) -> None:
    maker.asset(maker.meta_graph("serve"), filename, in_collection=in_collection)
    with pytest.raises(errors.PermissionDeniedError, match="outside its folder"):
        load(maker.write())


def test_initializer_without_effects_needs_no_step(
    maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    meta = maker.meta_graph("serve")
    meta.graph_def.node.add(name="nothing", op="NoOp")
    meta.collection_def["saved_model_main_op"].node_list.value.append("nothing")
    targets = []
    make_callable = Session.make_callable

    def recorded(session: Session, *args: Any, **options: Any) -> Any:
        targets.append(options["targets"])
        return make_callable(session, *args, **options)

    monkeypatch.setattr(Session, "make_callable", recorded)
    load(maker.write()).close()
    assert len(targets) == 1
    assert targets[0][-1] == "nothing"


def test_missing_asset_is_named(maker: Maker) -> None:
    maker.asset(maker.meta_graph("serve"), "vocab.txt")
    with pytest.raises(errors.NotFoundError, match=r"vocab\.txt"):
        load(maker.write())


def test_several_initializers_are_refused(maker: Maker) -> None:
    meta = maker.meta_graph("serve")
    meta.collection_def["saved_model_main_op"].node_list.value.extend(["a", "b"])
    with pytest.raises(errors.FailedPreconditionError, match="exactly one main op"):
        load(maker.write())


def test_missing_initializer_is_named(maker: Maker) -> None:
    meta = maker.meta_graph("serve")
    meta.collection_def["saved_model_main_op"].node_list.value.append("lost")
    with pytest.raises(errors.NotFoundError, match="lost"):
        load(maker.write())


# Bad input


def test_missing_variables_are_named(maker: Maker) -> None:
    maker.meta_graph("serve")
    with pytest.raises(errors.NotFoundError, match=r"variables\.index is missing"):
        load(maker.write(variables=False))


def test_missing_variables_of_a_keras_model_are_reported(tmp_path: Path) -> None:
    digits = Path(__file__).parents[3] / "examples" / "digits" / "saved_model_tf2"
    (tmp_path / "saved_model.pb").write_bytes((digits / "saved_model.pb").read_bytes())
    with pytest.raises(errors.NotFoundError, match=r"variables\.index is missing.*whole folder"):
        load(tmp_path)


def test_missing_variable_shard_is_named(maker: Maker) -> None:
    maker.meta_graph("serve")
    path = maker.write()
    (maker.folder / "variables" / "variables.data-00000-of-00001").unlink()
    with pytest.raises(errors.NotFoundError, match="data-00000-of-00001 is missing") as caught:
        load(path)
    assert caught.value.node == "save/RestoreV2"


def test_damaged_variables_are_data_loss(maker: Maker) -> None:
    maker.meta_graph("serve")
    path = maker.write()
    (maker.folder / "variables" / "variables.data-00000-of-00001").write_bytes(bytes(12))
    with pytest.raises(errors.DataLossError, match="Checksum does not match for tensor w"):
        load(path)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFoundError, match=r"neither saved_model\.pb nor"):
        load(tmp_path)


def test_graph_is_not_a_saved_model(tmp_path: Path) -> None:
    path = tmp_path / "graph.pb"
    graph = proto.GraphDef(node=[proto.NodeDef(name="n", op="NoOp")])
    path.write_bytes(graph.SerializeToString())
    with pytest.raises(errors.InvalidArgumentError, match="is a GraphDef, not a SavedModel"):
        load(path)


# Signatures


def test_unknown_signature_has_near_matches(maker: Maker) -> None:
    maker.meta_graph("serve")
    with load(maker.write()) as model:
        with pytest.raises(errors.NotFoundError, match="did you mean 'serving_default'"):
            model.signatures["serving_defualt"]
        assert "other" not in model.signatures
        assert model.signatures.get("other") is None


CALLS: list[tuple[dict[str, Any], str]] = [
    ({}, "missing: 'x'. It takes x: float32[3]"),
    ({"X": X}, "unknown: 'X'; did you mean 'x'"),
    ({"x": X, "y": X}, "unknown: 'y'"),
    ({"x": np.ones(4, np.float32)}, "Cannot feed value of shape (4,) for tensor 'x (x:0)'"),
    ({"x": np.array(["a"] * 3)}, "for tensor 'x (x:0)'"),
]


@pytest.mark.parametrize(("values", "words"), CALLS)
def test_wrong_inputs_are_refused_and_the_model_goes_on(
    maker: Maker, values: dict[str, Any], words: str
) -> None:
    maker.meta_graph("serve")
    with load(maker.write()) as model:
        with pytest.raises(errors.InvalidArgumentError) as caught:
            model.signatures["serving_default"](**values)
        assert words in caught.value.message
        model.signatures["serving_default"]({"x": [1, 2, 3]})  # goes on


def test_value_without_a_name_is_for_the_only_input(maker: Maker) -> None:
    maker.meta_graph("serve")
    with load(maker.write()) as model:
        signature = model.signatures["serving_default"]
        np.testing.assert_array_equal(signature(X)["y"], WEIGHTS)
        np.testing.assert_array_equal(signature([1, 1, 1])["y"], WEIGHTS)
        with pytest.raises(
            errors.InvalidArgumentError, match=r"has 0 required inputs.* It takes x: float"
        ):
            signature(X, x=X)


def test_inputs_have_their_defaults(maker: Maker) -> None:
    meta = maker.meta_graph("serve")
    default = meta.signature_def["serving_default"].defaults["x"]
    default.dtype = FLOAT
    default.tensor_shape.dim.add(size=3)
    default.float_val.append(2.0)
    with load(maker.write()) as model:
        signature = model.signatures["serving_default"]
        np.testing.assert_array_equal(signature()["y"], 2 * WEIGHTS)
        np.testing.assert_array_equal(signature(x=X)["y"], WEIGHTS)


def test_sparse_tensors_are_three_arrays(maker: Maker) -> None:
    meta = maker.meta_graph("serve")
    graph = meta.graph_def
    signature = meta.signature_def["sparse"]
    for part, dtype in (("indices", INT64), ("values", FLOAT), ("shape", INT64)):
        maker.node(graph, part, "Placeholder", dtype=dtype)
        maker.node(graph, f"out_{part}", "Identity", part, T=dtype)
    for info, prefix in ((signature.inputs["s"], ""), (signature.outputs["t"], "out_")):
        info.dtype = FLOAT
        info.coo_sparse.indices_tensor_name = f"{prefix}indices:0"
        info.coo_sparse.values_tensor_name = f"{prefix}values:0"
        info.coo_sparse.dense_shape_tensor_name = f"{prefix}shape:0"
    with load(maker.write()) as model:
        call = model.signatures["sparse"]
        parts = (np.array([[1, 2]]), np.array([5.0], np.float32), np.array([3, 4]))
        for part, expected in zip(call(s=parts)["t"], parts, strict=True):
            np.testing.assert_array_equal(part, expected)
        with pytest.raises(errors.InvalidArgumentError, match="tuple of 3 arrays"):
            call(s=X)


def test_large_constants_are_read_when_they_are_used(maker: Maker) -> None:
    meta = maker.meta_graph("serve")
    values = np.arange(30_000, dtype=np.float32).reshape(3, 10_000)
    node = meta.graph_def.node.add(name="big", op="Const")
    node.attr["dtype"].type = FLOAT
    tensor = node.attr["value"].tensor
    tensor.dtype, tensor.tensor_content = FLOAT, values.tobytes()
    for size in values.shape:
        tensor.tensor_shape.dim.add(size=size)
    with load(maker.write()) as model:
        assert model.meta_graph.ByteSize() < 3000
        np.testing.assert_array_equal(model.session.run("big:0"), values)


def test_model_runs_on_the_given_host(maker: Maker, make_host: Callable[..., Any]) -> None:
    maker.meta_graph("serve")
    host = make_host()
    with load(maker.write(), host=host) as model:
        assert isinstance(model.session, Session)
        assert host.sessions.snapshot()


EXAMPLES = Path(__file__).parents[3] / "examples" / "digits"


@pytest.mark.parametrize("name", ["saved_model_tf1", "saved_model_tf2"])
def test_the_examples_of_either_kind_are_loaded(name: str) -> None:
    if not (EXAMPLES / name).exists():
        pytest.skip("the examples are not here")
    with load(EXAMPLES / name) as model:
        (signature,) = model.signatures.values()
        assert signature.name == "serving_default"
