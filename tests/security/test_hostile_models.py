"""Models from files run under the policy *pure*, whoever loads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.security.hostile import (
    EFFECTS,
    PLACES,
    REFUSED,
    contents,
    feeds,
    hidden_graph,
    make_targets,
    recorded,
)

import graphmill
from graphmill import dtypes, errors, proto, saved_model
from graphmill.cli.main import run_command_line
from graphmill.cli.options import Settings
from graphmill.testing.case_graph import GraphMaker
from graphmill.testing.case_inputs import parse_input
from graphmill.testing.case_nodes import parse_node

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GRAPH: Final = PLACES["the graph"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "target"
    make_targets(found)
    return found


def constant(name: str, text: str) -> Any:
    node = proto.NodeDef(name=name, op="Const")
    node.attr["dtype"].type = dtypes.string.enum
    node.attr["value"].tensor.dtype = dtypes.string.enum
    node.attr["value"].tensor.tensor_shape.SetInParent()
    node.attr["value"].tensor.string_val.append(text.encode())
    return node


class Model:
    """Writes a SavedModel with a graph whose input `f` is a constant path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.message = proto.SavedModel(saved_model_schema_version=1)
        self.meta = self.message.meta_graphs.add()
        self.meta.meta_info_def.tags.append("serve")

    def take(self, graph: Any, path: str) -> None:
        self.meta.graph_def.CopyFrom(graph)
        for node in self.meta.graph_def.node:
            if node.name == "f":
                node.CopyFrom(constant("f", path))

    def signature(self, key: str, tensor: str, output: str = "y") -> None:
        signature = self.meta.signature_def[key]
        signature.outputs[output].name = tensor
        signature.outputs[output].dtype = dtypes.string.enum

    def write(self) -> Path:
        self.folder.mkdir(exist_ok=True)
        (self.folder / "saved_model.pb").write_bytes(self.message.SerializeToString())
        return self.folder


def model_of(name: str, folder: Path, tmp_path: Path, place: str = "the graph") -> Model:
    path = str(folder / EFFECTS[name].path)
    made = Model(tmp_path / "model")
    graph = hidden_graph(EFFECTS[name], PLACES[place], path)
    for node in graph.node:  # a model has no inputs that its attacker could not choose
        if node.op == "Placeholder" and node.name != "f":
            value = {"i": "int32: 0", "n": "int32: 1", "p": "bool: True"}[node.name]
            maker = GraphMaker(graphmill.default_host().ops)
            dtype, _, number = value.partition(": ")
            maker.node(parse_node(f"{node.name} = Const(dtype={dtype}, value='{dtype}: {number}')"))
            node.CopyFrom(maker.graph_def.node[0])
    made.take(graph, path)
    return made


@pytest.mark.parametrize("name", EFFECTS)
def test_signature_of_a_model_is_refused_and_works_by_following_the_message(
    name: str, folder: Path, tmp_path: Path
) -> None:
    effect = EFFECTS[name]
    made = model_of(name, folder, tmp_path)
    made.signature("serving_default", "y:0")
    path = made.write()
    before = contents(folder)
    with recorded(folder) as events, saved_model.load(path) as model:
        with pytest.raises(REFUSED, match="may not") as caught:
            model.signatures["serving_default"]()
        assert f"the op {effect.op} may not" in caught.value.message
    assert events == []
    assert contents(folder) == before
    allow: list[str] = []
    left: errors.OpError | None = caught.value
    while isinstance(left, errors.PermissionDeniedError) and len(allow) < 3:
        # A message names one rule.
        allow.append(left.message.partition("allow=['")[2].partition("'")[0])
        left = error_of(path, allow)
    assert type(left) is (effect.error or type(None)), (left, allow)


def error_of(path: Path, allow: list[str]) -> errors.OpError | None:
    """Return the error of a model's signature under some rules."""
    with saved_model.load(path, allow=allow) as model:
        try:
            model.signatures["serving_default"]()
        except errors.OpError as error:
            return error
    return None


@pytest.mark.parametrize("name", EFFECTS)
def test_initializer_of_a_model_is_refused(name: str, folder: Path, tmp_path: Path) -> None:
    made = model_of(name, folder, tmp_path, "a stateful call")
    made.signature("__saved_model_init_op", "y:0", "__saved_model_init_op")
    path = made.write()
    before = contents(folder)
    with recorded(folder) as events, pytest.raises(REFUSED, match="may not") as caught:
        saved_model.load(path)
    assert f"the op {EFFECTS[name].op} may not" in caught.value.message
    assert events == []
    assert contents(folder) == before


@pytest.mark.parametrize("name", EFFECTS)
def test_restore_op_of_a_model_is_refused(name: str, folder: Path, tmp_path: Path) -> None:
    """The restore op of a model that ignores the fed prefix of the variables is refused."""
    made = model_of(name, folder, tmp_path, "a call")
    made.meta.graph_def.node.append(constant("prefix", ""))
    made.meta.saver_def.restore_op_name = "y"
    made.meta.saver_def.filename_tensor_name = "prefix:0"
    path = made.write()
    (path / "variables").mkdir()
    (path / "variables" / "variables.index").touch()
    with recorded(folder) as events, pytest.raises(REFUSED, match="may not") as caught:
        saved_model.load(path)
    assert f"the op {EFFECTS[name].op} may not" in caught.value.message
    assert events == []


def asset_model(tmp_path: Path, asset: str) -> Model:
    """Return a model whose initializer fills a table from an asset."""
    made = Model(tmp_path / "model")
    maker = GraphMaker(graphmill.default_host().ops)
    maker.placeholder("f", parse_input("string: ''", {}, "f"))
    for text in (
        "h = HashTableV2(key_dtype=string, value_dtype=int64)",
        "a = InitializeTableFromTextFileV2(h, f, key_index=-2, value_index=-1)",
        "y = Identity(f, after=[a])",
    ):
        maker.node(parse_node(text))
    made.take(maker.graph_def, asset)
    made.meta.asset_file_def.add(filename=asset).tensor_info.name = "f:0"
    made.signature("__saved_model_init_op", "y:0", "__saved_model_init_op")
    made.signature("serving_default", "f:0")
    return made


def test_asset_of_a_model_is_read(tmp_path: Path) -> None:
    path = asset_model(tmp_path, "vocabulary.txt").write()
    (path / "assets").mkdir()
    (path / "assets" / "vocabulary.txt").write_bytes(b"one\n")
    with saved_model.load(path) as model:
        assert model.signatures["serving_default"]()


@pytest.mark.parametrize("is_absolute", [True, False])
def test_asset_that_is_a_link_out_of_the_model_is_refused(
    is_absolute: bool, folder: Path, tmp_path: Path
) -> None:
    path = asset_model(tmp_path, "vocabulary.txt").write()
    (path / "assets").mkdir()
    target = folder / "one.txt" if is_absolute else "../../target/one.txt"
    (path / "assets" / "vocabulary.txt").symlink_to(target)
    with recorded(folder) as events, pytest.raises(REFUSED, match="may not") as caught:
        saved_model.load(path)
    assert caught.value.op_type == "InitializeTableFromTextFileV2"
    assert str(folder / "one.txt") in caught.value.message
    assert events == []
    with saved_model.load(path, allow=[f"fs.read:{folder}"]) as model:
        assert model.session.allowed == (f"fs.read:{path}", f"fs.read:{folder}")


def test_folder_of_assets_that_is_a_link_out_of_the_model_is_refused(
    folder: Path, tmp_path: Path
) -> None:
    path = asset_model(tmp_path, "one.txt").write()
    (path / "assets").symlink_to(folder)
    with recorded(folder) as events, pytest.raises(REFUSED, match="may not"):
        saved_model.load(path)
    assert events == []


@pytest.mark.parametrize(
    "name", ["write a file", "list a folder", "write a checkpoint", "summaries"]
)
def test_model_folder_is_neither_written_nor_listed(name: str, tmp_path: Path) -> None:
    made = model_of(name, tmp_path / "model" / "assets", tmp_path)
    made.signature("serving_default", "y:0")
    path = made.write()
    (path / "assets").mkdir()
    before = contents(path)
    with saved_model.load(path) as model, pytest.raises(REFUSED, match="may not"):
        model.signatures["serving_default"]()
    assert contents(path) == before


def _frozen(graph: Any, tmp_path: Path) -> Any:
    path = tmp_path / "graph.pb"
    path.write_bytes(graph.SerializeToString())
    return str(path)


def _meta_graph(graph: Any, tmp_path: Path) -> Any:
    path = tmp_path / "graph.meta"
    path.write_bytes(proto.MetaGraphDef(graph_def=graph).SerializeToString())
    return path


def _read(graph: Any, tmp_path: Path) -> Any:
    from graphmill.graph.formats.model_file import load_graph

    return load_graph(_frozen(graph, tmp_path))


@pytest.mark.parametrize("given", [_frozen, _meta_graph, _read])
@pytest.mark.parametrize("name", EFFECTS)
def test_graph_that_is_given_as_a_file_is_refused(
    name: str, given: Callable[[Any, Path], Any], folder: Path, tmp_path: Path
) -> None:
    path = str(folder / EFFECTS[name].path)
    graph = hidden_graph(EFFECTS[name], GRAPH, path)
    with (
        recorded(folder) as events,
        graphmill.Session(graph=given(graph, tmp_path)) as session,
        pytest.raises(REFUSED, match="may not"),
    ):
        session.run("y:0", feeds(GRAPH, path))
    assert events == []


def test_graph_that_is_given_as_a_message_or_bytes_is_the_programs_own(folder: Path) -> None:
    graph = hidden_graph(EFFECTS["read a file"], GRAPH, "")
    for source in (graph, graph.SerializeToString()):
        with graphmill.Session(graph=source) as session:
            assert session.allowed is None
            assert session.run("y:0", {"f:0": str(folder / "one.txt")}) == b"abc"


@pytest.mark.parametrize("name", ["read a file", "write a file", "lines", "abort", "call Python"])
def test_graph_from_a_client_is_refused(name: str, folder: Path) -> None:
    pytest.importorskip("grpc")
    path = str(folder / EFFECTS[name].path)
    graph = hidden_graph(EFFECTS[name], GRAPH, path)
    with (
        graphmill.Server() as server,
        recorded(folder) as events,
        graphmill.Session(server.target, graph=graph, trust=True) as session,
        pytest.raises(REFUSED, match="may not"),
    ):
        session.run("y:0", feeds(GRAPH, path))
    assert [event for event in events if not event.startswith("socket")] == []


def test_rules_of_a_server_are_its_own_and_clients_only_restrict_them(folder: Path) -> None:
    pytest.importorskip("grpc")
    graph = hidden_graph(EFFECTS["read a file"], GRAPH, "")
    fed = {"f:0": str(folder / "one.txt")}
    with graphmill.Server(allow=[f"fs.read:{folder}"]) as server:
        with graphmill.Session(server.target, graph=graph) as session:
            assert session.run("y:0", fed) == b"abc"
        with (
            graphmill.Session(server.target, graph=graph, trust=False) as session,
            pytest.raises(REFUSED, match="may not"),
        ):
            session.run("y:0", fed)


def test_refused_command_works_by_following_the_message(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = model_of("summaries", folder, tmp_path)
    made.signature("serving_default", "y:0")
    path = str(made.write())
    assert command_line("run", path) != 0
    rule = capsys.readouterr().err.partition("--allow ")[2].split()[0]
    assert command_line("run", path, "--allow", rule) == 0
    assert (folder / "events").is_dir()
    assert command_line("scan", path) == 1
    assert command_line("scan", path, "--allow", rule) == 0


def command_line(*arguments: str) -> int:
    return run_command_line(arguments, Settings())
