"""`graphmill scan` lists a model's effects, and fails if any is not accepted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import graphmill
from graphmill import ops, proto

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Cli = Callable[..., Any]


def graph_file(folder: Path, path: str = "/etc/passwd") -> str:
    """Return a file with a graph that reads a file."""
    graph = graphmill.Graph()
    with graph.as_default():
        name = ops.array.identity(graph.constant(path.encode()))
        ops.io.read_file(name, name="contents")
    target = folder / "graph.pb"
    target.write_bytes(graph.as_graph_def().SerializeToString())
    return str(target)


def node(name: str, op: str, *inputs: str, **attrs: Any) -> proto.NodeDef:
    made = proto.NodeDef(name=name, op=op, input=inputs)
    for key, value in attrs.items():
        if isinstance(value, bytes):
            made.attr[key].tensor.dtype = 7
            made.attr[key].tensor.tensor_shape.SetInParent()
            made.attr[key].tensor.string_val.append(value)
        elif key in ("f", "then_branch"):
            made.attr[key].func.name = value
        else:
            made.attr[key].type = value
    return made


@pytest.fixture
def meta_graph(tmp_path: Path) -> str:
    """A MetaGraph: its signature calls a function that writes a file, its initializer reads one.

    A third node deletes the file, and nothing reaches it; a fourth reads an asset.
    """
    meta = proto.MetaGraphDef()
    meta.meta_info_def.tags.append("serve")
    function = meta.graph_def.library.function.add()
    function.signature.name = "hidden"
    function.signature.input_arg.add(name="x", type=7)
    function.signature.output_arg.add(name="y", type=7)
    function.ret["y"] = "x"
    function.node_def.extend([
        node("name", "Const", value=b"/tmp/stolen", dtype=7),
        node("write", "WriteFile", "name:output:0", "x"),
    ])  # fmt: skip
    meta.graph_def.node.extend([
        node("x", "Placeholder", dtype=7),
        node("y", "StatefulPartitionedCall", "x", f="hidden"),
        node("secret", "Const", value=b"/root/.ssh/id_rsa", dtype=7),
        node("init", "ReadFile", "secret"),
        node("late", "ReadFile", "secret"),
        node("vocabulary", "Const", value=b"words.txt", dtype=7),
        node("words", "ReadFile", "vocabulary"),
        node("other", "Identity", "words", T=7),
    ])  # fmt: skip
    for key, output in (("serving_default", "y:0"), ("words", "other:0")):
        meta.signature_def[key].outputs["y"].name = output
    init = meta.signature_def["__saved_model_init_op"].outputs["__saved_model_init_op"]
    init.name = "init"
    asset = meta.asset_file_def.add(filename="words.txt")
    asset.tensor_info.name = "vocabulary:0"
    target = tmp_path / "model.meta"
    target.write_bytes(meta.SerializeToString())
    return str(target)


def test_a_graph_that_reads_a_file_is_found(graphmill_cli: Cli, tmp_path: Path) -> None:
    result = graphmill_cli("scan", graph_file(tmp_path), "--json")
    assert result.code == 1
    data = json.loads(result.out)
    assert data["findings"] == 1
    (found,) = data["nodes"]
    assert (found["node"], found["op"], found["effects"]) == ("contents", "ReadFile", ["fs.read"])
    assert found["paths"] == ["/etc/passwd"]
    assert found["reached_by"] == ["graph"]


@pytest.mark.parametrize(("path", "code"), [("/etc/passwd", 1), ("words.txt", 1), ("", 0)])
def test_table_that_is_filled_from_a_file_outside_of_the_model_is_found(
    graphmill_cli: Cli, tmp_path: Path, path: str, code: int
) -> None:
    """Only assets are the model's own; loading the model is refused for other files."""
    meta = proto.MetaGraphDef()
    meta.meta_info_def.tags.append("serve")
    meta.graph_def.node.extend([
        node("name", "Const", value=path.encode() or b"words.txt", dtype=7),
        node("table", "HashTableV2", key_dtype=7, value_dtype=9),
        node("init", "InitializeTableFromTextFileV2", "table", "name"),
    ])  # fmt: skip
    meta.signature_def["__saved_model_init_op"].outputs["__saved_model_init_op"].name = "init"
    if not path:
        asset = meta.asset_file_def.add(filename="words.txt")
        asset.tensor_info.name = "name:0"
    target = tmp_path / "model.meta"
    target.write_bytes(meta.SerializeToString())
    result = graphmill_cli("scan", str(target), "--json")
    found = json.loads(result.out)["nodes"]
    assert (result.code, [each["paths"] for each in found]) == (code, [[path]] * code)


def test_allowed_effect_is_not_a_finding(graphmill_cli: Cli, tmp_path: Path) -> None:
    result = graphmill_cli("scan", graph_file(tmp_path), "--allow", "fs.read")
    assert result.code == 0
    assert "no signature reaches effects other than" in result.out


def test_nodes_in_functions_and_initializers_are_reached(
    graphmill_cli: Cli, meta_graph: str
) -> None:
    result = graphmill_cli("scan", meta_graph, "--json")
    assert result.code == 1
    nodes = {found["node"]: found for found in json.loads(result.out)["nodes"]}
    assert set(nodes) == {"write", "init", "late"}  # not the one that reads an asset
    assert nodes["write"]["function"] == "hidden"
    assert nodes["write"]["paths"] == ["/tmp/stolen"]
    assert nodes["write"]["reached_by"] == ["serving_default"]
    assert nodes["init"]["reached_by"] == ["initialization"]
    assert (nodes["late"]["reached_by"], nodes["late"]["is_finding"]) == ([], False)
    assert json.loads(result.out)["findings"] == 2


def test_the_table_names_function_and_path(graphmill_cli: Cli, meta_graph: str) -> None:
    result = graphmill_cli("scan", meta_graph, "--allow", "fs.read")
    assert result.code == 1
    assert "hidden: write" in result.out
    assert "/tmp/stolen" in result.out
    assert "only by name" not in result.out


@pytest.fixture
def summary_graph(tmp_path: Path) -> str:
    """A graph that writes a summary into `tmp_path / "runs"`."""
    graph_def = proto.GraphDef(node=[
        node("writer", "SummaryWriter"),
        node("folder", "Const", value=str(tmp_path / "runs").encode(), dtype=7),
        node("suffix", "Const", value=b".v", dtype=7),
        node("tag", "Const", value=b"loss", dtype=7),
        node("size", "Placeholder", dtype=3),
        node("step", "Placeholder", dtype=9),
        node("value", "Placeholder", dtype=1),
        node("open", "CreateSummaryFileWriter", "writer", "folder", "size", "size", "suffix"),
        node("write", "WriteScalarSummary", "writer", "step", "tag", "value", T=1),
    ])  # fmt: skip
    target = tmp_path / "summaries.pb"
    target.write_bytes(graph_def.SerializeToString())
    return str(target)


def test_users_of_a_writer_have_the_path_of_its_creator(
    graphmill_cli: Cli, summary_graph: str, tmp_path: Path
) -> None:
    nodes = json.loads(graphmill_cli("scan", summary_graph, "--json").out)["nodes"]
    paths = {found["node"]: found["paths"] for found in nodes}
    assert paths == {"open": [str(tmp_path / "runs")], "write": [str(tmp_path / "runs")]}


def test_a_rule_for_a_folder_allows_its_writer(
    graphmill_cli: Cli, summary_graph: str, tmp_path: Path
) -> None:
    rule = f"fs.write:{tmp_path / 'runs'}"
    assert graphmill_cli("scan", summary_graph, "--allow", rule).code == 0
    assert graphmill_cli("scan", summary_graph, "--allow", f"fs.write:{tmp_path / 'x'}").code == 1


def test_an_op_that_is_not_registered_may_do_anything(graphmill_cli: Cli, tmp_path: Path) -> None:
    graph_def = proto.GraphDef(node=[proto.NodeDef(name="n", op="Foreign>Unheard")])
    (tmp_path / "graph.pb").write_bytes(graph_def.SerializeToString())
    result = graphmill_cli("scan", str(tmp_path / "graph.pb"), "--json")
    assert result.code == 1
    assert json.loads(result.out)["nodes"][0]["effects"] == ["unknown"]


@pytest.mark.parametrize("form", ["saved_model_tf1", "saved_model_tf2", "digits_frozen.pb"])
def test_the_example_models_only_compute(graphmill_cli: Cli, digits: Path, form: str) -> None:
    result = graphmill_cli("scan", str(digits / form))
    assert result.code == 0, result.out


def test_harmless_effects_are_listed_on_request(graphmill_cli: Cli, digits: Path) -> None:
    result = graphmill_cli("scan", str(digits / "saved_model_tf2"), "--all", "--json")
    effects = {effect for found in json.loads(result.out)["nodes"] for effect in found["effects"]}
    assert "state" in effects


def test_other_tags_are_refused(graphmill_cli: Cli, meta_graph: str) -> None:
    result = graphmill_cli("scan", meta_graph, "--tags", "train")
    assert result.code == 3
    assert "serve" in result.err
