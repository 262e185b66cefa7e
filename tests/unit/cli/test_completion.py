"""The shell completes files, inputs of models, and names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.shell_completion import ShellComplete

from graphmill.cli.main import cli
from graphmill.cli.options import Settings

if TYPE_CHECKING:
    from pathlib import Path


def offered(*arguments: str, incomplete: str = "") -> list[tuple[str, str]]:
    """Return the kind and text of each completion after the arguments."""
    shell = ShellComplete(cli, {"obj": Settings()}, "graphmill", "_GRAPHMILL_COMPLETE")
    return [(item.type, item.value) for item in shell.get_completions(list(arguments), incomplete)]


@pytest.mark.parametrize("command", ["run", "show", "explain", "compare", "freeze", "export"])
def test_a_model_is_a_file(command: str) -> None:
    assert offered(command, incomplete="dig") == [("file", "dig")]


@pytest.mark.parametrize("command", ["run", "explain", "debug", "report"])
def test_inputs_of_the_model_are_offered(command: str, digits: Path) -> None:
    model = str(digits / "saved_model_tf2")
    assert offered(command, model) == [("plain", "image=")]
    assert offered(command, model, incomplete="x") == []
    assert offered(command, model, "image=1") == []


def test_the_value_of_an_input_may_be_a_file(digits: Path) -> None:
    model = str(digits / "saved_model_tf2")
    assert offered("run", model, incomplete="image=@se") == [("file", "image=@se")]


def test_signatures_of_the_model_are_offered(digits: Path) -> None:
    model = str(digits / "saved_model_tf2")
    assert offered("show", model, "--signature", incomplete="s") == [("plain", "serving_default")]
    assert offered("show", "--signature", incomplete="s") == []


@pytest.mark.parametrize("model", ["nothing", "digits_frozen.pb"])
def test_a_model_without_signatures_offers_no_inputs(model: str, digits: Path) -> None:
    assert offered("run", str(digits / model)) == []


def test_ops_are_offered() -> None:
    assert offered("ops", incomplete="Relu6") == [("plain", "Relu6"), ("plain", "Relu6Grad")]


def test_devices_are_offered() -> None:
    assert ("plain", "CPU") in offered("run", "--device")


@pytest.mark.parametrize("option", ["--out", "--labels", "--outdir", "--trace", "--each"])
def test_options_of_files_offer_files(option: str) -> None:
    assert offered("run", option, incomplete="r") == [("file", "r")]
