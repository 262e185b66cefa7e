"""`graphmill compare` finds the first node that differs, and fails if an output differs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import graphmill
from graphmill import ops

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Cli = Callable[..., Any]


def model(folder: Path, name: str, factor: float) -> str:
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [2], name="x")
        ops.math.tanh(ops.math.mul(x, graph.constant(factor), name="scaled"), name="out")
    path = folder / name
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return str(path)


def test_a_model_agrees_with_itself_compiled(graphmill_cli: Cli, tmp_path: Path) -> None:
    result = graphmill_cli("compare", model(tmp_path, "a.pb", 2.0), "x=[0, 0.5]", "--every-tensor")
    assert result.code == 0, result.err
    assert "the outputs and all compared tensors agree" in result.out
    assert "intermediate tensors compared" in result.out


def test_outputs_that_agree_although_the_weights_differ(graphmill_cli: Cli, tmp_path: Path) -> None:
    a, b = model(tmp_path, "a.pb", 2.0), model(tmp_path, "b.pb", 3.0)
    arguments = ("compare", a, "x=[0, 50]", "--b", f"model={b}")  # tanh is 1 in both
    result = graphmill_cli(*arguments)
    assert result.code == 0, result.err
    assert "the outputs agree; --every-tensor compares" in result.out
    result = graphmill_cli(*arguments, "--every-tensor")
    assert result.code == 0, result.err
    assert "first difference: " in result.out
    assert "the outputs agree, although '" in result.out


def test_another_model_differs(graphmill_cli: Cli, tmp_path: Path) -> None:
    a, b = model(tmp_path, "a.pb", 2.0), model(tmp_path, "b.pb", 3.0)
    result = graphmill_cli("compare", a, "x=[0, 0.5]", "--b", f"model={b}", "--json")
    assert result.code == 1, result.err
    data = json.loads(result.out)
    assert (data["agrees"], data["path"][1:]) == (False, ["scaled:0", "out:0"])
    assert data["outputs"][0]["num_outside"] == 1
    text = graphmill_cli("compare", a, "x=[0, 0.5]", "--b", f"model={b}").out
    assert "path: " in text
    assert "-> scaled:0 -> out:0" in text


def test_long_strings_are_cut_around_their_difference(graphmill_cli: Cli, tmp_path: Path) -> None:
    paths = []
    for name in ("a", "b"):
        graph = graphmill.Graph()
        with graph.as_default():
            x = graph.placeholder("string", [], name="x")
            ops.string.string_join([x, f"{'-' * 200}{name}{'-' * 200}"], name="out")
        paths.append(tmp_path / f"{name}.pb")
        paths[-1].write_bytes(graph.as_graph_def().SerializeToString())
    result = graphmill_cli("compare", str(paths[0]), 'x="x"', "--b", f"model={paths[1]}")
    assert result.code == 1, result.err
    assert f"…{'-' * 20}a{'-' * 19}…" in result.out
    assert f"…{'-' * 20}b{'-' * 19}…" in result.out
    equal = graphmill_cli("compare", str(paths[0]), 'x="x"', "--b", "jit=off").out
    assert f"b'x{'-' * 37}…" in equal
    assert "-" * 45 not in equal


def test_tolerances_decide_the_exit_code(graphmill_cli: Cli, tmp_path: Path) -> None:
    a, b = model(tmp_path, "a.pb", 2.0), model(tmp_path, "b.pb", 2.001)
    arguments = ("compare", a, "x=[0, 0.5]", "--b", f"model={b}")
    assert graphmill_cli(*arguments).code == 1
    assert graphmill_cli(*arguments, "--atol", "0.01").code == 0


def test_a_folder_of_reference_values_is_compared(graphmill_cli: Cli, tmp_path: Path) -> None:
    a, b = model(tmp_path, "a.pb", 2.0), model(tmp_path, "b.pb", 3.0)
    folder = tmp_path / "reference"
    assert graphmill_cli("run", a, "x=[0, 0.5]", "--outdir", str(folder)).code == 0
    assert graphmill_cli("compare", a, "x=[0, 0.5]", "--b", f"reference={folder}").code == 0
    assert graphmill_cli("compare", b, "x=[0, 0.5]", "--b", f"reference={folder}").code == 1
    next(folder.iterdir()).write_bytes(b"damaged")
    damaged = graphmill_cli("compare", a, "x=[0, 0.5]", "--b", f"reference={folder}")
    assert damaged.code not in (0, 1)
    assert "is not a .npy file" in damaged.err
    empty = graphmill_cli("compare", a, "x=[0, 0.5]", "--b", f"reference={tmp_path / 'none'}")
    assert "has no values of the outputs" in empty.err


def test_a_recording_is_a_reference(graphmill_cli: Cli, tmp_path: Path) -> None:
    a, b = model(tmp_path, "a.pb", 2.0), model(tmp_path, "b.pb", 3.0)
    file = tmp_path / "step.gmrec"
    commands = ("-x", "continue", "-x", f"save {file}")
    assert graphmill_cli("debug", a, "x=[0, 0.5]", "--fetch", "out:0", *commands).code == 0
    assert graphmill_cli("compare", a, "--b", f"recording={file}").code == 0
    result = graphmill_cli("compare", b, "--b", f"recording={file}")
    assert result.code == 1, result.err
    assert "-> scaled:0 -> out:0" in result.out
    with_inputs = graphmill_cli("compare", a, "x=[0, 1]", "--b", f"recording={file}")
    assert "recording= has inputs and fetches" in with_inputs.err
    file.write_bytes(file.read_bytes()[:100])
    assert "damaged or truncated" in graphmill_cli("compare", a, "--b", f"recording={file}").err


def test_float64_is_a_reference(graphmill_cli: Cli, tmp_path: Path) -> None:
    result = graphmill_cli("compare", model(tmp_path, "a.pb", 2.0), "x=[0, 0.5]", "--b", "float64")
    assert result.code == 0, result.err
    assert "recomputed in float64" in result.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--b", "jti=off"), "there is no setting 'jti', only jit, device"),
        (("--b", "jit"), "write jit=VALUE"),
        (("--b", "float64=1"), "write float64"),
        (("--a", "jit=fast"), "jit is 'fast', expected off, tiered, eager"),
        (("--a", "float64"), "reference=, recording= and float64 are only valid for --b"),
    ],
)
def test_wrong_settings_are_refused(
    graphmill_cli: Cli, tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    result = graphmill_cli("compare", model(tmp_path, "a.pb", 2.0), "x=[0, 0.5]", *options)
    assert result.code == 2
    assert message in " ".join(result.err.split())


def test_models_with_other_outputs_are_refused(graphmill_cli: Cli, tmp_path: Path) -> None:
    a, b = model(tmp_path, "a.pb", 2.0), tmp_path / "b.pb"
    graph = graphmill.Graph()
    with graph.as_default():
        ops.math.neg(graph.placeholder("float32", [2], name="x"), name="negative")
    b.write_bytes(graph.as_graph_def().SerializeToString())
    result = graphmill_cli("compare", a, "x=[0, 0.5]", "--b", f"model={b}")
    assert "choose tensors that both have with --fetch" in " ".join(result.err.split())


def test_the_settings_of_tolerances_are_checked(graphmill_cli: Cli, tmp_path: Path) -> None:
    result = graphmill_cli("compare", model(tmp_path, "a.pb", 2.0), "x=[0, 0.5]", "--rtol", "-1")
    assert "rtol is -1.0; expected a number of at least 0" in result.err
    assert result.code not in (0, 1)


def test_every_tensor_is_compared_only_of_two_runs(graphmill_cli: Cli, tmp_path: Path) -> None:
    path = model(tmp_path, "a.pb", 2.0)
    result = graphmill_cli("compare", path, "x=[0, 0.5]", "--b", "float64", "--every-tensor")
    assert result.code == 2
    assert "--every-tensor is for two runs; --b float64 determines" in result.err
