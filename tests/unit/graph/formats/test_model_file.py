"""GraphDef, MetaGraphDef and SavedModel files are read in any encoding (clause G2)."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from google.protobuf import json_format, text_format
from hypothesis import given, settings
from hypothesis import strategies as st

from graphmill import errors, files, proto
from graphmill.graph.formats import model_format
from graphmill.graph.formats.model_file import load_graph, open_model
from graphmill.graph.formats.model_format import Encoding, Kind
from graphmill.graph.formats.stored_tensor import StoredTensor
from graphmill.proto.wire import iterate_fields, length_delimited, write_varint

if TYPE_CHECKING:
    from pathlib import Path

WEIGHTS = np.linspace(-1, 1, 3000, dtype=np.float32).reshape(30, 100)


def make_graph() -> Any:
    graph = proto.GraphDef()
    graph.versions.producer = 1395
    weights = graph.node.add(name="w", op="Const")
    weights.attr["dtype"].type = 1
    tensor = weights.attr["value"].tensor
    tensor.dtype = 1
    for size in WEIGHTS.shape:
        tensor.tensor_shape.dim.add(size=size)
    tensor.tensor_content = WEIGHTS.tobytes()
    graph.node.add(name="y", op="Identity", input=["w"]).attr["T"].type = 1
    return graph


def make_meta_graph(*tags: str) -> Any:
    meta = proto.MetaGraphDef(graph_def=make_graph())
    meta.meta_info_def.tags.extend(tags)
    meta.meta_info_def.tensorflow_version = "2.21.0"
    meta.signature_def["serving_default"].outputs["y"].name = "y:0"
    return meta


def make_saved_model(*tag_sets: tuple[str, ...]) -> Any:
    return proto.SavedModel(
        saved_model_schema_version=1, meta_graphs=[make_meta_graph(*tags) for tags in tag_sets]
    )


MESSAGES = {
    Kind.GRAPH_DEF: make_graph(),
    Kind.META_GRAPH_DEF: make_meta_graph("serve"),
    Kind.SAVED_MODEL: make_saved_model(("serve",)),
}


def encode(message: Any, encoding: Encoding) -> bytes:
    if encoding is Encoding.BINARY:
        content: bytes = message.SerializeToString()
        return content
    to_text: Any = (
        text_format.MessageToString if encoding is Encoding.TEXT else json_format.MessageToJson
    )
    return bytes(to_text(message).encode())


@pytest.mark.parametrize("encoding", Encoding)
@pytest.mark.parametrize("kind", Kind)
def test_every_kind_is_read_in_every_encoding(
    kind: Kind, encoding: Encoding, tmp_path: Path
) -> None:
    path = tmp_path / "model.any"  # the suffix says nothing
    path.write_bytes(encode(MESSAGES[kind], encoding))
    model = open_model(path)
    assert (model.kind, model.encoding) == (kind, encoding)
    assert model.graph().whole() == make_graph()


def test_detection_checks_few_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = proto.GraphDef()
    for number in range(20):
        node = graph.node.add(name=f"n{number}", op="NoOp")
        for attr in range(20):
            node.attr[f"a{attr}"].list.i.append(attr)
    read = []

    def counted(*place: Any) -> Any:
        for field in iterate_fields(*place):
            read.append(field)
            yield field

    monkeypatch.setattr(model_format, "iterate_fields", counted)
    content = memoryview(graph.SerializeToString())
    assert model_format.detect(content, "model.pb").kind is Kind.GRAPH_DEF
    assert len(read) < 100


def test_large_constants_stay_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.pb"
    path.write_bytes(make_graph().SerializeToString())
    loaded = load_graph(path)
    assert loaded.graph_def.ByteSize() < 200
    stored = loaded.tensors["", "w", "value"]
    assert isinstance(stored, StoredTensor)
    assert (stored.shape, stored.dtype, stored.nbytes) == ((30, 100), np.float32, 12000)
    values = np.asarray(stored)
    np.testing.assert_array_equal(values, WEIGHTS)
    assert not values.flags.writeable
    assert values.ctypes.data % 64 == 0


def test_values_are_shared_while_referenced(tmp_path: Path) -> None:
    path = tmp_path / "model.pb"
    path.write_bytes(make_graph().SerializeToString())
    stored = load_graph(path).tensors["", "w", "value"]
    part = stored.read()[3:]
    again = stored.read()
    assert np.shares_memory(part, again)
    np.testing.assert_array_equal(again, WEIGHTS)
    del part, again
    path.write_bytes(b"gone")
    with pytest.raises(errors.DataLossError):
        stored.read()  # nobody holds them any more


def test_bytes_and_urls_are_read() -> None:
    content = make_graph().SerializeToString()
    np.testing.assert_array_equal(load_graph(content).tensors["", "w", "value"], WEIGHTS)
    pytest.importorskip("fsspec")
    files.write("memory://graphmill_models/m.pb", content)
    assert load_graph("memory://graphmill_models/m.pb").whole() == make_graph()


def test_constants_of_a_changed_file_are_data_loss(tmp_path: Path) -> None:
    path = tmp_path / "model.pb"
    path.write_bytes(make_graph().SerializeToString())
    loaded = load_graph(path)
    path.write_bytes(b"something else")
    with pytest.raises(errors.DataLossError, match="was changed"):
        np.asarray(loaded.tensors["", "w", "value"])


def test_closing_releases_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.pb"
    path.write_bytes(make_graph().SerializeToString())
    loaded = load_graph(path)
    loaded.close()
    loaded.close()
    with pytest.raises(errors.FailedPreconditionError, match="closed"):
        np.asarray(loaded.tensors["", "w", "value"])


def test_a_file_of_more_than_2_gb_is_read(tmp_path: Path) -> None:
    # A sparse file: the first constant is a hole of 2.4 GB. Protobuf alone cannot parse it.
    count = 600_000_000
    dim = b"\x08" + write_varint(count)
    shape = length_delimited(2, len(dim)) + dim
    head = b"\x08\x01" + length_delimited(2, len(shape)) + shape + length_delimited(4, 4 * count)
    # Outwards: the attr's tensor, the entry's value, the node's attr, the graph's node.
    for prefix, number in (
        (b"", 8),
        (b"\x0a\x05value", 2),
        (b"\x0a\x03big\x12\x05Const", 5),
        (b"", 1),
    ):
        head = prefix + length_delimited(number, len(head) + 4 * count) + head
    path = tmp_path / "model.pb"
    with path.open("wb") as file:
        file.write(head)
        file.seek(4 * count, 1)
        file.write(make_graph().SerializeToString())
    loaded = load_graph(path)
    assert [node.name for node in loaded.graph_def.node] == ["big", "w", "y"]
    assert loaded.tensors["", "big", "value"].shape == (count,)
    np.testing.assert_array_equal(loaded.tensors["", "w", "value"], WEIGHTS)


def test_tag_sets_and_meta_graphs(tmp_path: Path) -> None:
    (tmp_path / "saved_model.pb").write_bytes(
        make_saved_model(("serve",), ("serve", "gpu")).SerializeToString()
    )
    model = open_model(tmp_path)
    assert model.tag_sets() == [{"serve"}, {"serve", "gpu"}]
    assert model.meta_graph(1).tags == {"serve", "gpu"}
    assert model.meta_graph(1).meta_graph_def.signature_def["serving_default"].outputs
    with pytest.raises(errors.InvalidArgumentError, match="no index 2"):
        model.meta_graph(2)
    with pytest.raises(errors.InvalidArgumentError, match="2 meta graphs"):
        model.graph()


def test_a_folder_with_a_text_saved_model_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "saved_model.pbtxt"
    path.write_text(text_format.MessageToString(make_saved_model(("serve",))))
    model = open_model(tmp_path)
    assert (model.path, model.tag_sets()) == (str(path), [{"serve"}])


def test_any_in_text_has_tensorflows_name() -> None:
    text = """collection_def { key: "saved_model_assets" value { any_list { value {
        [type.googleapis.com/tensorflow.AssetFileDef] { filename: "vocab.txt" } } } } }"""
    meta = open_model(text.encode()).meta_graph().meta_graph_def
    (packed,) = meta.collection_def["saved_model_assets"].any_list.value
    assert proto.AssetFileDef.FromString(packed.value).filename == "vocab.txt"


# Bad input


def refused(content: bytes, tmp_path: Path, name: str = "model.pb") -> errors.OpError:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(errors.OpError) as caught:
        load_graph(path)
    assert name in caught.value.message
    return caught.value


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"\x00\x01\x02\x03" * 9, "neither a GraphDef"),
        (b"\x89HDF\r\n\x1a\n" + bytes(9), "Keras .h5"),
        (b"\x1c\x00\x00\x00TFL3" + bytes(9), "TensorFlow Lite"),
        (b"\x89PNG\r\n\x1a\n" + bytes(9), "PNG image"),
        (b"PK\x03\x04" + bytes(40), "zip archive"),
        (b"PK\x03\x04" + bytes(26) + b"x.npy", "NumPy arrays"),
        (bytes(40) + bytes.fromhex("57fb808b247547db"), "index of a checkpoint"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "pointer of Git LFS"),
        (b"\x08\x07\x12\x07pytorch\x3a\x00\x42\x00", "ONNX"),
        (b"item { name: 'cat' }", "first field is 'item'"),
        (b'{"layers": 3}', "first field is 'layers'"),
        (b"hello\xff\xfe", "first field is 'hello'"),
        (b"node { name: 'a' opp: 'b' }", "opp"),
        (b"node { name: 'a' ", "text form"),
        (b'{"node": [{"name": 3}]}', "JSON form"),
        (b'{"node": [', "JSON form"),
    ],
)
def test_invalid_model_file_is_explained(content: bytes, words: str, tmp_path: Path) -> None:
    error = refused(content, tmp_path)
    assert isinstance(error, errors.InvalidArgumentError)
    assert words in error.message


def test_truncated_file_is_data_loss(tmp_path: Path) -> None:
    content = make_graph().SerializeToString()
    graph = proto.GraphDef(node=[proto.NodeDef(name="first", op="NoOp")])
    error = refused(graph.SerializeToString() + content[:-30], tmp_path)
    assert isinstance(error, errors.DataLossError)
    assert "truncated or damaged" in error.message


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    error = refused(b"node { name: '" + b"a" * 5000 + b"\xff' }", tmp_path)
    assert isinstance(error, errors.DataLossError)
    assert "UTF-8" in error.message


def test_a_saved_model_given_as_a_graph_is_refused(tmp_path: Path) -> None:
    error = refused(make_saved_model(("serve",)).SerializeToString(), tmp_path)
    assert "saved_model.load" in error.message


def test_a_graph_given_as_a_saved_model_is_refused() -> None:
    with pytest.raises(errors.InvalidArgumentError, match="is a GraphDef and has no meta graphs"):
        open_model(make_graph().SerializeToString()).tag_sets()


def test_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.index").touch()
    with pytest.raises(errors.NotFoundError, match=r"there is: model\.index"):
        open_model(tmp_path)


def test_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(errors.NotFoundError, match=r"none\.pb"):
        open_model(tmp_path / "none.pb")


@pytest.mark.parametrize("encoding", [Encoding.TEXT, Encoding.JSON])
def test_depth_of_text_does_not_depend_on_the_input(encoding: Encoding, tmp_path: Path) -> None:
    if encoding is Encoding.TEXT:
        content = "node { attr { value { " + "func { attr { value { " * 50_000
    else:
        content = '{"node": [{"attr": {"a": ' + '{"func": {"attr": {"a": ' * 50_000
    error = refused(content.encode(), tmp_path)
    assert isinstance(error, errors.InvalidArgumentError)
    assert "nested more than 100 deep" in error.message


def test_braces_in_strings_do_not_nest() -> None:
    text = "node { name: '{{{' op: \"" + "{" * 500 + '" } # {{{'
    assert len(load_graph(text.encode()).graph_def.node) == 1


def nested_binary(depth: int) -> bytes:
    value = proto.AttrValue()
    for _ in range(depth):
        outer = proto.AttrValue()
        outer.func.attr["a"].CopyFrom(value)
        value = outer
    node = proto.NodeDef(name="n", op="NoOp")
    node.attr["a"].CopyFrom(value)
    return bytes(proto.GraphDef(node=[node]).SerializeToString())


def test_deep_binary_is_a_typed_error() -> None:
    content = nested_binary(20)
    assert load_graph(content).graph_def.node[0].name == "n"
    # Too deep for the classes to write: wrap the bytes by hand.
    value = b""
    for _ in range(2000):
        value = wrap(value)
    with pytest.raises(errors.DataLossError):
        load_graph(wrap_node(value))


def wrap(value: bytes) -> bytes:
    entry = b"\x0a\x01a" + length_delimited(2, len(value)) + value
    entry = length_delimited(2, len(entry)) + entry  # NameAttrList.attr
    return length_delimited(10, len(entry)) + entry  # AttrValue.func


def wrap_node(value: bytes) -> bytes:
    entry = b"\x0a\x01a" + length_delimited(2, len(value)) + value
    node = b"\x0a\x01n\x12\x04NoOp" + length_delimited(5, len(entry)) + entry
    return length_delimited(1, len(node)) + node


SMALL = [encode(MESSAGES[kind], encoding) for kind in Kind for encoding in Encoding]


@settings(max_examples=300)
@given(st.sampled_from(SMALL), st.data())
def test_damaged_files_are_typed_errors(content: bytes, data: st.DataObject) -> None:
    damaged = bytearray(content)
    for _ in range(data.draw(st.integers(0, 3))):
        # The front holds the structure, the middle mostly the weights.
        position = data.draw(st.integers(0, min(len(damaged), 300) - 1))
        damaged[position] = data.draw(st.integers(0, 255))
    end = data.draw(st.one_of(st.just(len(damaged)), st.integers(0, len(damaged))))
    with contextlib.suppress(errors.OpError):
        open_model(bytes(damaged[:end])).graph().whole()


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_typed_errors(content: bytes) -> None:
    with contextlib.suppress(errors.OpError):
        open_model(content).graph()


def test_json_keys_are_read_in_either_spelling() -> None:
    data = json.loads(json_format.MessageToJson(MESSAGES[Kind.SAVED_MODEL]))
    assert "metaGraphs" in data
    snake = json_format.MessageToJson(MESSAGES[Kind.SAVED_MODEL], preserving_proto_field_name=True)
    assert open_model(snake.encode()).kind is Kind.SAVED_MODEL
