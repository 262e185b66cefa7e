"""`graphmill show` summarizes every kind of model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from google.protobuf import json_format, text_format

import graphmill
from graphmill import ops, proto
from graphmill.cli import error_reporting
from graphmill.plugin.host import Host
from graphmill.saved.checkpoint import save_checkpoint

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(scope="module")
def host() -> Host:
    return Host(load_entry_points=False)


@pytest.mark.parametrize("style", ["saved_model_tf1", "saved_model_tf2"])
def test_saved_models_are_shown(
    graphmill_cli: Callable[..., Any], host: Host, digits: Path, style: str
) -> None:
    data = json.loads(graphmill_cli("show", str(digits / style), "--json", host=host).out)
    (graph,) = data["graphs"]
    signature = graph["signatures"]["serving_default"]
    assert data["kind"] == "SavedModel"
    assert graph["tags"] == ["serve"]
    assert signature["inputs"][0]["name"] == "image"
    assert signature["inputs"][0]["shape"] == [-1, 8, 8, 1]
    assert [port["name"] for port in signature["outputs"]] == ["classes", "probabilities"]
    assert graph["ops"]["Conv2D"] == 2


def test_frozen_graph_has_inputs_and_outputs(
    graphmill_cli: Callable[..., Any], host: Host, digits: Path
) -> None:
    outcome = graphmill_cli("show", str(digits / "digits_frozen.pb"), host=host)
    lines = [line.split() for line in outcome.out.splitlines()]
    assert ["input", "image", "float32", "[?,", "8,", "8,", "1]", "image:0"] in lines
    assert ["output", "classes:0", "int64", "[?]", "classes:0"] in lines


def test_outputs_of_a_graph_have_static_shapes(
    graphmill_cli: Callable[..., Any], tmp_path: Path
) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None, 3], name="x")
        rate = ops.array.placeholder_with_default(np.float32(2), shape=[], name="rate")
        ops.math.mul(x, rate, name="y")

        def body(i: Any) -> list[Any]:
            ops.math.neg(i, name="unused")
            return [i + 1]

        graphmill.while_loop(lambda i: ops.math.less(i, 3), body, [0], name="loop")
    path = tmp_path / "graph.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    outcome = graphmill_cli("show", str(path), "--json")
    (shown,) = json.loads(outcome.out)["graphs"]
    shapes = {port["tensor"]: port["shape"] for port in shown["outputs"]}
    assert shapes == {"y:0": [-1, 3], "loop/Exit:0": []}
    assert [port["name"] for port in shown["inputs"] if "has_default" in port] == ["rate"]
    assert "input, default  rate" in graphmill_cli("show", str(path)).out


def test_sizes_of_variables_are_shown(
    graphmill_cli: Callable[..., Any], host: Host, digits: Path
) -> None:
    outcome = graphmill_cli("show", str(digits / "saved_model_tf2"), "--json", host=host)
    (shown,) = json.loads(outcome.out)["graphs"]
    assert shown["variables"] == {"nodes": 8, "elements": 29914, "bytes": 119656}


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    prefix = str(tmp_path / "model-7")
    save_checkpoint(prefix, {"w": np.zeros((2, 3), np.float32), "b": np.array([b"a"], object)})
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model-7"\n')
    return prefix


@pytest.mark.parametrize("form", ["{prefix}", "{prefix}.index", "{folder}"])
def test_checkpoint_lists_its_variables(
    graphmill_cli: Callable[..., Any], checkpoint: str, tmp_path: Path, form: str
) -> None:
    path = form.format(prefix=checkpoint, folder=tmp_path)
    data = json.loads(graphmill_cli("show", path, "--json").out)
    assert data["kind"] == "checkpoint"
    assert data["bytes"] == 24
    assert data["tensors"] == [
        {"name": "b", "dtype": "string", "shape": [1]},
        {"name": "w", "dtype": "float32", "shape": [2, 3]},
    ]
    assert "2 tensors with 7 elements; 24 bytes" in graphmill_cli("show", path).out


def test_running_a_checkpoint_names_its_graph(
    graphmill_cli: Callable[..., Any], checkpoint: str, tmp_path: Path
) -> None:
    (tmp_path / "model-7.meta").write_bytes(b"")
    outcome = graphmill_cli("run", checkpoint)
    assert outcome.code == error_reporting.INVALID
    assert f"try: {checkpoint}.meta" in outcome.err
    outcome = graphmill_cli("run", str(tmp_path))
    assert f"try: {checkpoint}.meta" in outcome.err


def test_folder_of_versions_names_the_newest(
    graphmill_cli: Callable[..., Any], host: Host, tmp_path: Path
) -> None:
    for version in ("2", "10"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "saved_model.pb").write_bytes(b"")
    outcome = graphmill_cli("show", str(tmp_path), host=host)
    assert outcome.code == error_reporting.INVALID
    assert f"try: {tmp_path / '10'}, the newest of the versions" in outcome.err


@pytest.mark.parametrize("suffix", [".pbtxt", ".json"])
def test_graphs_as_text_show_the_same(
    graphmill_cli: Callable[..., Any], host: Host, digits: Path, tmp_path: Path, suffix: str
) -> None:
    binary = digits / "digits_frozen.pb"
    graph = proto.GraphDef.FromString(binary.read_bytes())
    write = text_format.MessageToString if suffix == ".pbtxt" else json_format.MessageToJson
    (tmp_path / f"x{suffix}").write_text(write(graph))
    expected = json.loads(graphmill_cli("show", str(binary), "--json", host=host).out)
    found = graphmill_cli("show", str(tmp_path / f"x{suffix}"), "--json", host=host)
    assert json.loads(found.out)["graphs"] == expected["graphs"]


def test_ops_without_kernel_are_named(
    graphmill_cli: Callable[..., Any], host: Host, digits: Path
) -> None:
    outcome = graphmill_cli("show", str(digits / "digits_frozen.pb"), host=host)
    assert "no kernel here for: AddV2, ArgMax" in outcome.out


def test_options_of_saved_model_cli_are_accepted(
    graphmill_cli: Callable[..., Any], host: Host, digits: Path
) -> None:
    outcome = graphmill_cli(
        "show", "--dir", str(digits / "saved_model_tf1"), "--tag_set", "serve",
        "--signature_def", "serving_default", "--list_ops", "--all", host=host,
    )  # fmt: skip
    assert outcome.code == 0
    assert "signature serving_default" in outcome.out
    assert "Conv2D" in outcome.out


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--tag_set", "gpu", "no MetaGraph with tags 'gpu'; it has serve"),
        ("--signature_def", "serving", "did you mean 'serving_default'?"),
    ],
)
def test_wrong_tags_and_signature_lists_alternatives(
    graphmill_cli: Callable[..., Any],
    host: Host,
    digits: Path,
    option: str,
    value: str,
    message: str,
) -> None:
    outcome = graphmill_cli("show", str(digits / "saved_model_tf2"), option, value, host=host)
    assert outcome.code == error_reporting.INVALID
    assert message in outcome.err


@pytest.mark.parametrize("name", ["seven.png", "heldout.npz", "README.md", "missing", "."])
def test_invalid_model_is_reported(
    graphmill_cli: Callable[..., Any], host: Host, digits: Path, name: str
) -> None:
    outcome = graphmill_cli("show", str(digits / name), host=host)
    assert outcome.code == error_reporting.INVALID
    assert outcome.err.startswith("error: ")
    assert outcome.out == ""


def test_truncated_model_is_reported(
    graphmill_cli: Callable[..., Any], host: Host, digits: Path, tmp_path: Path
) -> None:
    content = (digits / "digits_frozen.pb").read_bytes()
    (tmp_path / "x.pb").write_bytes(content[: len(content) // 2])
    outcome = graphmill_cli("show", str(tmp_path / "x.pb"), host=host)
    assert outcome.code == error_reporting.INVALID
    assert "truncated" in outcome.err
