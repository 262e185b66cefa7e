"""`graphmill export` writes the exporters' files, and refuses unknown names and sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import errors

if TYPE_CHECKING:
    from collections.abc import Callable

    Cli = Callable[..., Any]

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.jax


@pytest.mark.parametrize(
    ("target", "names"),
    [("jax", ["function.jax", "variables.npz"]), ("stablehlo", ["program.mlir", "program.jax"])],
)
def test_model_is_exported(
    graphmill_cli: Cli, digits: Path, tmp_path: Path, target: str, names: list[str]
) -> None:
    out = tmp_path / "out"
    model = str(digits / "saved_model_tf2")
    arguments = ("--to", target, "--out", str(out), "--shape", "image=2,8,8,1", "--json")
    outcome = graphmill_cli("export", model, *arguments)
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["files"] == [str(out / name) for name in names]
    loaded = jax.export.deserialize(bytearray((out / names[target == "stablehlo"]).read_bytes()))
    image = np.zeros((2, 8, 8, 1), np.float32)
    with jax.enable_x64(True):
        if target == "jax":
            found = loaded.call(dict(np.load(out / "variables.npz")), {"image": image})["classes"]
        else:
            found = loaded.call(image)[0]
    assert found.shape[0] == 2
    again = graphmill_cli("export", model, *arguments)
    assert again.code == 3
    assert f"{out} exists already; remove it, or choose another name" in again.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--to", "jax"), 3, "has an unknown size"),
        (("--to", "onyx"), 3, "no exporter 'onyx' is registered; did you mean 'onnx'"),
        (("--to", "jax", "--shape", "image"), 3, "is not of the form NAME=1,8"),
        (("--to", "jax", "--signature", "train"), 3, "no signature 'train'"),
    ],
)
def test_values_that_do_not_fit_are_refused(
    graphmill_cli: Cli, digits: Path, tmp_path: Path, arguments: Any, code: int, message: str
) -> None:
    model = str(digits / "saved_model_tf2")
    outcome = graphmill_cli("export", model, *arguments, "--out", str(tmp_path / "out"))
    assert outcome.code == code
    assert message in outcome.err


def test_advice_on_a_shape_has_the_known_sizes(
    graphmill_cli: Cli, digits: Path, tmp_path: Path
) -> None:
    arguments = ("--to", "jax", "--out", str(tmp_path / "out"))
    outcome = graphmill_cli("export", str(digits / "saved_model_tf2"), *arguments)
    assert "--shape image=1,8,8,1" in outcome.err
    assert not (tmp_path / "out").exists()


def test_onnx_file_is_written(graphmill_cli: Cli, digits: Path, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    out = tmp_path / "digits.onnx"
    arguments = ("--to", "onnx", "--out", str(out), "--shape", "image=2,8,8,1", "--json")
    outcome = graphmill_cli("export", str(digits / "saved_model_tf1"), *arguments)
    assert outcome.code == 0, outcome.err
    assert json.loads(outcome.out)["files"] == [str(out)]
    (image,) = onnx.load(str(out)).graph.input
    assert [dim.dim_value for dim in image.type.tensor_type.shape.dim] == [2, 8, 8, 1]


def test_saved_model_is_written(graphmill_cli: Cli, digits: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    arguments = ("--to", "saved_model", "--out", str(out))
    assert graphmill_cli("export", str(digits / "digits_frozen.pb"), *arguments).code == 0
    assert "serving_default" in graphmill_cli("show", str(out)).out
    refused = graphmill_cli(
        "export", str(digits / "digits_frozen.pb"), *arguments[:-1], str(out) + "2",
        "--platform", "cuda",
    )  # fmt: skip
    assert (refused.code, "has no option --platform" in refused.err) == (3, True)
    assert not (tmp_path / "model2").exists()


class CountNodes:
    """An exporter whose result is a number."""

    @graphmill.hookimpl
    def graphmill_register_exporters(self, exporters: Any) -> None:
        """Register it."""
        exporters.add("count", lambda graph: len(graph.body.graph.nodes))


def test_a_result_without_a_save_method_is_refused_with_advice(
    graphmill_cli: Cli, make_host: Callable[..., Any], digits: Path, tmp_path: Path
) -> None:
    arguments = ("--to", "count", "--out", str(tmp_path / "out"))
    outcome = graphmill_cli(
        "export", str(digits / "digits_frozen.pb"), *arguments, host=make_host(CountNodes())
    )
    assert outcome.code == 5
    assert "returns a int, which has no method save; use graphmill.export" in outcome.err


class FullDisk:
    """An exporter whose result cannot be written, after `written` files."""

    def __init__(self, written: int) -> None:
        self.written = written

    @graphmill.hookimpl
    def graphmill_register_exporters(self, exporters: Any) -> None:
        """Register it."""
        exporters.add("full", lambda graph: self)

    def save(self, folder: str) -> list[str]:
        """Fail as on a full disk."""
        Path(folder).mkdir()
        for number in range(self.written):
            Path(folder, str(number)).touch()
        raise errors.ResourceExhaustedError(f"{folder}: No space left on device")


@pytest.mark.parametrize("written", [0, 1])
def test_a_failed_export_leaves_no_empty_folder(
    graphmill_cli: Cli, make_host: Callable[..., Any], digits: Path, tmp_path: Path, written: int
) -> None:
    out = tmp_path / "out"
    outcome = graphmill_cli(
        "export", str(digits / "digits_frozen.pb"), "--to", "full", "--out", str(out),
        host=make_host(FullDisk(written)),
    )  # fmt: skip
    assert "No space left on device" in outcome.err
    assert out.exists() == bool(written)
