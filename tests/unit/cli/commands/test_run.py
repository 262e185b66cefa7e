"""`graphmill run` accepts all forms of models, inputs and outputs, and refuses bad ones."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from google.protobuf import json_format, text_format

import graphmill
from graphmill import ops, proto
from graphmill.cli import error_reporting
from graphmill.files.local import LocalWriter
from graphmill.files.status import typed_errors

if TYPE_CHECKING:
    from collections.abc import Callable

    Cli = Callable[..., Any]

pytest.importorskip("PIL")


@pytest.fixture
def seven(digits: Path) -> str:
    return f"image=@{digits / 'seven.png'}"


@pytest.fixture
def frozen(digits: Path) -> str:
    return str(digits / "digits_frozen.pb")


@pytest.fixture(params=["saved_model_tf1", "saved_model_tf2"])
def saved(digits: Path, request: pytest.FixtureRequest) -> str:
    return str(digits / request.param)


def test_saved_model_classifies_a_picture(graphmill_cli: Cli, saved: str, seven: str) -> None:
    outcome = graphmill_cli("run", saved, seven, "--top", "3")
    lines = [line.split() for line in outcome.out.splitlines()]
    first = lines.index(["index", "score"]) + 1
    assert outcome.code == 0
    path = seven.removeprefix("image=@")
    scaled = f"graphmill: the pixels of {path} are scaled to 0..1"
    assert f"{scaled}; --pixels (pixels=) chooses 0..255 or -1..1\n" in outcome.err
    assert lines[first][0] == "7"
    assert float(lines[first][1]) > 0.9
    assert ["[7]"] in lines


@pytest.mark.parametrize("model", ["saved_model_tf2", "digits_frozen.pb"])
def test_only_input_needs_no_name(graphmill_cli: Cli, digits: Path, model: str) -> None:
    picture = f"@{digits / 'seven.png'}"
    outcome = graphmill_cli("run", str(digits / model), picture, "--json")
    assert outcome.code == 0
    assert 7 in [output["value"][0] for output in json.loads(outcome.out)["outputs"].values()]


def test_file_without_at_sign_is_refused(graphmill_cli: Cli, frozen: str, digits: Path) -> None:
    picture = str(digits / "seven.png")
    outcome = graphmill_cli("run", frozen, picture)
    assert outcome.code == error_reporting.INVALID
    assert "is a file, not a value of input 'image'" in outcome.err
    assert f"try: @{picture}" in outcome.err


@pytest.fixture
def loop_file(tmp_path: Path) -> str:
    """A graph with the inputs `x`, `n` and, with a default, `scale`: x * scale**n in a loop."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [None], name="x")
        n = graph.placeholder("int32", [], name="n")
        scale = ops.array.placeholder_with_default(np.float32(2), shape=[], name="scale")

        def body(i: Any, value: Any) -> list[Any]:
            ops.math.neg(value, name="unused")
            return [i + 1, value * scale]

        _, y = graphmill.while_loop(lambda i, _: ops.math.less(i, n), body, [0, x])
        ops.array.identity(y, name="y")
    path = tmp_path / "loop.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return str(path)


def test_default_outputs_leave_out_tensors_in_loops(graphmill_cli: Cli, loop_file: str) -> None:
    outcome = graphmill_cli("run", loop_file, "x=[1, 2]", "n=3", "--json")
    outputs = json.loads(outcome.out)["outputs"]
    assert outputs["y:0"]["value"] == [8, 16]
    assert not any("unused" in name for name in outputs)


def test_value_without_name_of_several_inputs_is_refused(
    graphmill_cli: Cli, loop_file: str
) -> None:
    outcome = graphmill_cli("run", loop_file, "3")
    assert outcome.code == error_reporting.INVALID
    assert "'3' does not name an input" in outcome.err
    assert "has the inputs 'x', 'n'" in outcome.err
    assert "try: x=3" in outcome.err


def test_error_of_a_missing_input_shows_the_syntax(graphmill_cli: Cli, loop_file: str) -> None:
    outcome = graphmill_cli("run", loop_file, "x=[1, 2]")
    assert outcome.code == error_reporting.INVALID
    assert "try: n=@FILE, or n=VALUE" in outcome.err


def test_pixels_are_scaled_as_asked(graphmill_cli: Cli, frozen: str, seven: str) -> None:
    outcome = graphmill_cli("run", frozen, seven, "--fetch", "image:0", "--json")
    data = json.loads(outcome.out)
    assert "scaled" not in outcome.err
    (note,) = data["notes"]
    assert "are scaled to 0..1" in note
    usual = np.asarray(data["outputs"]["image:0"]["value"])
    arguments = ("--fetch", "image:0", "--pixels", "0..255", "--json")
    outcome = graphmill_cli("run", frozen, seven, *arguments)
    bright = np.asarray(json.loads(outcome.out)["outputs"]["image:0"]["value"])
    np.testing.assert_allclose(bright, usual * 255, rtol=1e-5)


@pytest.mark.filterwarnings("default")
def test_device_type_without_devices_is_reported(
    graphmill_cli: Cli, frozen: str, seven: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    outcome = graphmill_cli("run", frozen, seven, "--device", "GPU", "--fetch", "classes:0")
    assert outcome.code == 0
    assert "warning: there is no device of type GPU" in outcome.err
    assert "CUDA_VISIBLE_DEVICES hides all GPUs" in outcome.err


def test_tensor_inside_a_function_is_fetched(graphmill_cli: Cli, digits: Path, seven: str) -> None:
    name = "StatefulPartitionedCall/StatefulPartitionedCall/ArgMax:0"
    model = str(digits / "saved_model_tf2")
    outcome = graphmill_cli("run", model, seven, "--fetch", name, "--json")
    assert json.loads(outcome.out)["outputs"][name]["value"] == [7]
    outcome = graphmill_cli("run", model, seven, "--fetch", "ArgMax:0")
    assert outcome.code != 0
    assert name.removesuffix(":0") in outcome.err


@pytest.mark.parametrize(("name", "digit"), [("zero", 0), ("three", 3), ("seven", 7), ("nine", 9)])
def test_every_picture_has_its_digit(
    graphmill_cli: Cli, saved: str, digits: Path, name: str, digit: int
) -> None:
    picture = f"image=@{digits / name}.png"
    outcome = graphmill_cli("run", saved, picture, "--json", "--top", "1")
    data = json.loads(outcome.out)
    assert data["outputs"]["classes"] == {"dtype": "int64", "shape": [1], "value": [digit]}
    assert data["top"]["probabilities"][0][0]["index"] == digit


def test_all_heldout_digits_are_read_as_tensorflow_reads_them(
    graphmill_cli: Cli, saved: str, digits: Path, tmp_path: Path
) -> None:
    heldout = np.load(digits / "heldout.npz")
    np.save(tmp_path / "x.npy", heldout["image"] / np.float32(255))
    outcome = graphmill_cli(
        "run", saved, f"image=@{tmp_path}/x.npy", "--outdir", str(tmp_path / "out")
    )
    assert outcome.code == 0
    classes = np.load(tmp_path / "out" / "classes.npy")
    probabilities = np.load(tmp_path / "out" / "probabilities.npy")
    assert len(classes) == 450
    assert np.mean(classes == heldout["label"]) >= 0.97
    np.testing.assert_allclose(probabilities, heldout["probabilities"], atol=1e-5)


def test_options_of_saved_model_cli_are_accepted(
    graphmill_cli: Cli, saved: str, digits: Path
) -> None:
    outcome = graphmill_cli(
        "run", "--dir", saved, "--tag_set", "serve", "--signature_def", "serving_default",
        "--input_exprs", "image=np.zeros((2, 8, 8, 1))", "--json",
    )  # fmt: skip
    assert json.loads(outcome.out)["outputs"]["probabilities"]["shape"] == [2, 10]


def test_inputs_of_saved_model_cli_are_accepted(
    graphmill_cli: Cli, saved: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "x.npz", a=np.zeros((1, 8, 8, 1)), b=np.ones((3, 8, 8, 1)))
    inputs = f"image={tmp_path}/x.npz[b]"
    outcome = graphmill_cli("run", "--dir", saved, "--inputs", inputs, "--json")
    assert json.loads(outcome.out)["outputs"]["classes"]["shape"] == [3]


def test_inner_tensors_of_a_saved_model_are_fetched(
    graphmill_cli: Cli, digits: Path, seven: str
) -> None:
    model = str(digits / "saved_model_tf1")
    outcome = graphmill_cli(
        "run", model, seven, "--fetch", "Relu:0", "--fetch", "classes", "--json"
    )
    outputs = json.loads(outcome.out)["outputs"]
    assert outputs["Relu:0"]["shape"] == [1, 8, 8, 16]
    assert outputs["classes"]["value"] == [7]


def test_frozen_graph_gives_its_ends(graphmill_cli: Cli, frozen: str, seven: str) -> None:
    outputs = json.loads(graphmill_cli("run", frozen, seven, "--json").out)["outputs"]
    assert sorted(outputs) == ["classes:0", "probabilities:0"]
    assert outputs["classes:0"]["value"] == [7]


def test_any_tensor_of_a_graph_can_be_fed(graphmill_cli: Cli, frozen: str) -> None:
    outcome = graphmill_cli(
        "run", frozen, "Relu_2:0=np.zeros((1, 48))", "--fetch", "classes:0", "--json"
    )
    assert json.loads(outcome.out)["outputs"]["classes:0"]["shape"] == [1]


@pytest.mark.parametrize("suffix", [".pbtxt", ".json"])
def test_graphs_as_text_are_run(
    graphmill_cli: Cli, frozen: str, seven: str, tmp_path: Path, suffix: str
) -> None:
    graph = proto.GraphDef.FromString(Path(frozen).read_bytes())
    write = text_format.MessageToString if suffix == ".pbtxt" else json_format.MessageToJson
    (tmp_path / f"x{suffix}").write_text(write(graph))
    outcome = graphmill_cli("run", str(tmp_path / f"x{suffix}"), seven, "--fetch", "classes:0")
    assert outcome.out == "classes:0: int64 [1]\n[7]\n"


def test_a_meta_graph_runs_without_a_checkpoint(
    graphmill_cli: Cli, frozen: str, seven: str, tmp_path: Path
) -> None:
    graph = proto.GraphDef.FromString(Path(frozen).read_bytes())
    meta = proto.MetaGraphDef(graph_def=graph)
    meta.meta_info_def.tensorflow_version = "1.15.0"
    (tmp_path / "x.meta").write_bytes(meta.SerializeToString())
    outcome = graphmill_cli("run", str(tmp_path / "x.meta"), seven, "--fetch", "classes:0")
    assert outcome.out == "classes:0: int64 [1]\n[7]\n"


def test_a_meta_graph_restores_its_checkpoint(
    graphmill_cli: Cli, digits: Path, seven: str, tmp_path: Path
) -> None:
    folder = digits / "saved_model_tf1"
    saved_model = proto.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    (tmp_path / "model.meta").write_bytes(saved_model.meta_graphs[0].SerializeToString())
    for name in ("index", "data-00000-of-00001"):
        (tmp_path / f"model.{name}").write_bytes(
            (folder / "variables" / f"variables.{name}").read_bytes()
        )
    outcome = graphmill_cli("run", str(tmp_path / "model.meta"), seven, "--json")
    assert json.loads(outcome.out)["outputs"]["classes"]["value"] == [7]


def test_labels_stand_beside_classes(
    graphmill_cli: Cli, frozen: str, seven: str, tmp_path: Path
) -> None:
    (tmp_path / "labels.txt").write_text("zero\none\ntwo\nthree\nfour\nfive\nsix\nseven\n")
    labels = str(tmp_path / "labels.txt")
    outcome = graphmill_cli("run", frozen, seven, "--top", "2", "--labels", labels)
    assert "7  seven  0.9" in outcome.out
    assert "9  ?      " in outcome.out


def test_top_of_a_batch_has_rows(graphmill_cli: Cli, frozen: str) -> None:
    outcome = graphmill_cli("run", frozen, "image=np.zeros((2, 8, 8, 1))", "--top", "1")
    assert [line.split()[0] for line in outcome.out.splitlines()[1:4]] == ["row", "0", "1"]


def test_strings_go_in_and_out(graphmill_cli: Cli, tmp_path: Path) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        text = graph.placeholder("string", [None], name="text")
        graphmill.ops.array.identity(text, name="same")
    (tmp_path / "x.pb").write_bytes(graph.as_graph_def().SerializeToString())
    outcome = graphmill_cli("run", str(tmp_path / "x.pb"), "text=hello you", "--json")
    assert json.loads(outcome.out)["outputs"]["same:0"]["value"] == ["hello you"]


# Bad input: a clear typed error, an exit code, nothing on stdout.


def assert_refused(outcome: Any, message: str, code: int = error_reporting.INVALID) -> None:
    assert outcome.out == ""
    assert message in outcome.err
    assert "error: " in outcome.err
    assert outcome.code == code


def test_picture_of_wrong_size_is_refused(graphmill_cli: Cli, saved: str, tmp_path: Path) -> None:
    from PIL import Image

    Image.new("L", (28, 20)).save(tmp_path / "big.png")
    outcome = graphmill_cli("run", saved, f"image=@{tmp_path}/big.png")
    assert_refused(outcome, "is 28 x 20 pixels")
    assert "accepts images of 8 x 8" in outcome.err
    assert "try: --resize" in outcome.err
    assert graphmill_cli("run", saved, f"image=@{tmp_path}/big.png", "--resize").code == 0


def test_unknown_input_is_refused(graphmill_cli: Cli, saved: str) -> None:
    outcome = graphmill_cli("run", saved, "imgae=0")
    assert_refused(outcome, "has no input 'imgae'; did you mean 'image'?")


def test_missing_input_is_named(graphmill_cli: Cli, saved: str) -> None:
    assert_refused(graphmill_cli("run", saved), "needs a value for its input 'image'")


def test_an_integer_for_a_float_feature_gets_advice(graphmill_cli: Cli, tmp_path: Path) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        examples = graph.placeholder("string", [None], name="examples")
        age = ops.parsing.parse_example_v2(
            examples,
            *(np.array(keys, object) for keys in ([], [], [b"age"], [])),
            [np.zeros(0, np.float32)],
            num_sparse=0, sparse_types=[], ragged_value_types=[], ragged_split_types=[],
            dense_shapes=[[1]],
        ).dense_values[0]  # fmt: skip
        ops.array.identity(age, name="age")
    model = tmp_path / "examples.pb"
    model.write_bytes(graph.as_graph_def().SerializeToString())
    outcome = graphmill_cli("run", str(model), "--input_examples", 'examples=[{"age": [22]}]')
    assert outcome.code == error_reporting.EXECUTION
    assert "try: 22.0 for a float feature" in outcome.err
    fixed = graphmill_cli("run", str(model), "--input_examples", 'examples=[{"age": [22.0]}]')
    assert "22" in fixed.out


def test_wrong_tags_are_refused(graphmill_cli: Cli, saved: str, seven: str) -> None:
    outcome = graphmill_cli("run", saved, seven, "--tags", "serve,gpu")
    assert_refused(outcome, "serve")


def test_wrong_signature_is_refused(graphmill_cli: Cli, saved: str, seven: str) -> None:
    outcome = graphmill_cli("run", saved, seven, "--signature", "predict")
    assert_refused(outcome, "no signature 'predict'")
    assert "it has: serving_default" in outcome.err


def test_tags_of_a_graph_are_refused(graphmill_cli: Cli, frozen: str, seven: str) -> None:
    assert_refused(graphmill_cli("run", frozen, seven, "--tags", "serve"), "has no tags")


def test_unknown_fetch_is_refused(graphmill_cli: Cli, frozen: str, seven: str) -> None:
    outcome = graphmill_cli("run", frozen, seven, "--fetch", "clases:0")
    assert_refused(outcome, "'classes'")


def test_unknown_tensor_as_input_is_refused(graphmill_cli: Cli, frozen: str) -> None:
    assert_refused(graphmill_cli("run", frozen, "imag:0=0"), "did you mean 'image'?")


def test_a_graph_that_fails_has_its_own_exit_code(graphmill_cli: Cli, tmp_path: Path) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", None, name="x")
        graphmill.ops.math.mat_mul(x, graph.constant(np.ones((2, 2), np.float32)), name="y")
    (tmp_path / "x.pb").write_bytes(graph.as_graph_def().SerializeToString())
    outcome = graphmill_cli("run", str(tmp_path / "x.pb"), "x=np.zeros((1, 3))")
    assert_refused(outcome, "where: node ", error_reporting.EXECUTION)


def test_not_fed_placeholder(graphmill_cli: Cli, frozen: str) -> None:
    assert_refused(graphmill_cli("run", frozen), "image")


def test_files_are_not_replaced(
    graphmill_cli: Cli, frozen: str, seven: str, tmp_path: Path
) -> None:
    (tmp_path / "classes_0.npy").write_text("mine")
    outcome = graphmill_cli("run", frozen, seven, "--outdir", str(tmp_path))
    assert_refused(outcome, "exists already")
    assert (tmp_path / "classes_0.npy").read_text() == "mine"
    assert graphmill_cli("run", frozen, seven, "--outdir", str(tmp_path), "--overwrite").code == 0
    assert np.load(tmp_path / "classes_0.npy").tolist() == [7]


def test_a_full_disk_leaves_the_earlier_file(
    graphmill_cli: Cli, frozen: str, seven: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "classes_0.npy").write_text("mine")

    def write(self: LocalWriter, chunk: Any) -> None:
        with typed_errors(self.path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(LocalWriter, "write", write)
    outcome = graphmill_cli("run", frozen, seven, "--outdir", str(tmp_path), "--overwrite")
    assert_refused(outcome, "No space left on device")
    assert "free space on the file system" in outcome.err
    assert [path.name for path in tmp_path.iterdir()] == ["classes_0.npy"]
    assert (tmp_path / "classes_0.npy").read_text() == "mine"


def test_outdir_that_is_a_file(graphmill_cli: Cli, frozen: str, seven: str, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    outcome = graphmill_cli("run", frozen, seven, "--outdir", str(tmp_path / "out"))
    assert_refused(outcome, "out is a file; --outdir needs a folder")


def test_a_file_that_is_not_a_model_is_refused(
    graphmill_cli: Cli, digits: Path, seven: str
) -> None:
    assert_refused(graphmill_cli("run", str(digits / "seven.png"), seven), "not a model")


def test_missing_variables_are_named(
    graphmill_cli: Cli, digits: Path, seven: str, tmp_path: Path
) -> None:
    content = (digits / "saved_model_tf2" / "saved_model.pb").read_bytes()
    (tmp_path / "saved_model.pb").write_bytes(content)
    outcome = graphmill_cli("run", str(tmp_path), seven)
    assert outcome.code in {error_reporting.INVALID, error_reporting.EXECUTION}
    assert "variables" in outcome.err


def test_an_effect_that_is_forbidden_is_refused(graphmill_cli: Cli, tmp_path: Path) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        graphmill.ops.io.read_file("there.txt", name="y")
    model = tmp_path / "model.pb"
    model.write_bytes(graph.as_graph_def().SerializeToString())
    outcome = graphmill_cli("run", str(model), "--fetch", "y:0", "--forbid", "fs.read")
    assert outcome.code != 0
    assert "ReadFile may read files" in outcome.err


def test_forbidden_state_is_refused_like_other_effects(graphmill_cli: Cli, digits: Path) -> None:
    arguments = (f"image=@{digits / 'seven.png'}", "--forbid", "state")
    outcome = graphmill_cli("run", str(digits / "saved_model_tf2"), *arguments)
    assert outcome.code == 4
    assert "effect 'state'" in outcome.err


def test_model_may_read_its_own_files_despite_forbidden_effects(
    graphmill_cli: Cli, saved: str, seven: str
) -> None:
    assert graphmill_cli("run", saved, seven, "--forbid", "fs.read", "--forbid", "net").code == 0


def test_a_trace_of_several_steps_is_written(
    graphmill_cli: Cli, frozen: str, seven: str, tmp_path: Path
) -> None:
    trace = tmp_path / "trace.json"
    result = graphmill_cli("run", frozen, seven, "--trace", str(trace), "--trace-steps", "3")
    assert result.code == 0, result.err
    events = json.loads(trace.read_text("utf-8"))["traceEvents"]
    assert [e["name"] for e in events if e.get("cat") == "step"] == ["step 0", "step 1", "step 2"]


def test_times_of_nodes_are_measured_for_a_trace(
    graphmill_cli: Cli, frozen: str, seven: str, tmp_path: Path
) -> None:
    refused = graphmill_cli("run", frozen, seven, "--node-times")
    assert refused.code == 2
    assert "--trace FILE" in refused.err
    trace = tmp_path / "trace.json"
    result = graphmill_cli("run", frozen, seven, "--trace", str(trace), "--node-times")
    assert result.code == 0, result.err
    assert result.out == graphmill_cli("run", frozen, seven).out


def test_a_trace_needs_a_file_that_can_be_written(
    graphmill_cli: Cli, frozen: str, seven: str, tmp_path: Path
) -> None:
    """The outputs are printed nevertheless; as JSON, there is one document."""
    (tmp_path / "file").touch()
    arguments = ("run", frozen, seven, "--trace", str(tmp_path / "file" / "trace.json"))
    result = graphmill_cli(*arguments)
    assert result.code != 0
    assert str(tmp_path / "file") in result.err
    assert result.out == graphmill_cli(*arguments[:3]).out
    failed = graphmill_cli(*arguments, "--json")
    assert failed.code != 0
    assert "error" in json.loads(failed.out or failed.err)


@pytest.fixture
def isolation() -> None:
    from graphmill.isolation.limits import PROTECTIONS
    from graphmill.isolation.protections import check_protections

    try:
        check_protections(PROTECTIONS)
    except graphmill.errors.UnimplementedError as error:
        pytest.skip(error.message)


@pytest.mark.parametrize("arguments", [(), ("--fetch", "classes:0")])
@pytest.mark.parametrize("name", ["saved_model_tf2", "digits_frozen.pb"])
def test_isolated_model_gives_the_same_outputs(
    graphmill_cli: Cli, digits: Path, seven: str, isolation: None, name: str, arguments: Any
) -> None:
    if name.startswith("saved") and arguments:
        arguments = ("--fetch", "StatefulPartitionedCall:0")
    model = str(digits / name)
    expected = graphmill_cli("run", model, seven, *arguments, "--json")
    outcome = graphmill_cli("run", model, seven, *arguments, "--json", "--isolate")
    assert outcome.code == expected.code
    assert json.loads(outcome.out) == json.loads(expected.out)


def test_isolation_that_is_impossible_is_unsupported(
    graphmill_cli: Cli, frozen: str, seven: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphmill.isolation.protections._system_fault", lambda: "no kernel")
    outcome = graphmill_cli("run", frozen, seven, "--isolate")
    assert outcome.code == error_reporting.UNSUPPORTED
    assert "the model cannot be isolated: no kernel" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--limit", "threads=5"), error_reporting.USAGE, "add --isolate"),
        (("--isolate", "--queue-runners"), error_reporting.USAGE, "--queue-runners cannot be"),
        (("--isolate", "--device", "CPU"), error_reporting.USAGE, "which uses the CPU"),
        (("--isolate", "--limit", "thread=5"), error_reporting.INVALID, "did you mean 'threads'"),
        (("--isolate", "--limit", "threads=x"), error_reporting.INVALID, "positive integer"),
    ],
)
def test_wrong_options_of_isolation_are_refused(
    graphmill_cli: Cli, frozen: str, seven: str, arguments: Any, code: int, message: str
) -> None:
    outcome = graphmill_cli("run", frozen, seven, *arguments)
    assert outcome.code == code
    assert message in outcome.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--labels", "names.txt"), "--labels needs --top"),
        (("--overwrite",), "--overwrite needs --outdir"),
        (("--trace-steps", "2"), "--trace-steps needs --trace"),
        (("--limit", "seconds=1", "--each", "x.npy", "--out", "y.csv"), "add --isolate"),
        (("--isolate", "--device", "CPU"), "--device cannot be combined with --isolate"),
    ],
)
def test_option_without_effect_is_refused(
    graphmill_cli: Cli, frozen: str, options: tuple[str, ...], message: str
) -> None:
    outcome = graphmill_cli("run", frozen, *options)
    assert outcome.code == 2
    assert message in outcome.err


def test_session_is_closed_after_the_step(
    graphmill_cli: Cli, frozen: str, seven: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[graphmill.Session] = []
    close = graphmill.Session.close

    def record(self: graphmill.Session) -> None:
        closed.append(self)
        close(self)

    monkeypatch.setattr(graphmill.Session, "close", record)
    assert graphmill_cli("run", frozen, seven).code == 0
    assert len(closed) == 1


def test_example_with_an_integer_beyond_int64_is_refused(
    graphmill_cli: Cli, tmp_path: Path
) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        text = graph.placeholder("string", [None], name="examples")
        graphmill.ops.array.identity(text, name="same")
    model = tmp_path / "x.pb"
    model.write_bytes(graph.as_graph_def().SerializeToString())
    value = 'examples=[{"age": [99999999999999999999]}]'
    outcome = graphmill_cli("run", str(model), "--input_examples", value)
    assert outcome.code == 3
    assert "feature 'age' of input 'examples' has an integer" in outcome.err
