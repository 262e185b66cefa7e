"""The commands that run steps have the options of `graphmill run` for inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import graphmill
from graphmill import ops, train

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Cli = Callable[..., Any]


@pytest.fixture
def picture(tmp_path: Path) -> str:
    """The path of a white image of 2 x 2 pixels."""
    image = pytest.importorskip("PIL.Image")
    path = tmp_path / "white.png"
    image.new("L", (2, 2), 255).save(path)
    return str(path)


@pytest.fixture
def sums(tmp_path: Path) -> str:
    """The path of a model that adds the pixels of an image."""
    graph = graphmill.Graph()
    with graph.as_default():
        image = graph.placeholder("float32", [None, 2, 2, 1], name="image")
        ops.math.sum(image, [1, 2, 3], name="total")
    path = tmp_path / "sums.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return str(path)


def test_references_of_the_same_pixels_agree(
    graphmill_cli: Cli, sums: str, picture: str, tmp_path: Path
) -> None:
    options = (f"@{picture}", "--pixels", "0..255")
    reference = str(tmp_path / "reference")
    assert graphmill_cli("run", sums, *options, "--outdir", reference).code == 0
    (path,) = (tmp_path / "reference").iterdir()
    assert np.load(path) == 4 * 255
    outcome = graphmill_cli("compare", sums, *options, "--b", f"reference={reference}")
    assert outcome.code == 0, outcome.err + outcome.out
    arguments = ("compare", sums, f"@{picture}", "--b", f"reference={reference}")
    assert graphmill_cli(*arguments).code == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "--run", "--steps", "1"),
        ("explain", "--jit", "--steps", "1", "--memory"),
        ("debug", "-x", "continue", "-x", "results"),
    ],
)
def test_pixels_are_scaled_as_asked_and_noted_once(
    graphmill_cli: Cli,
    sums: str,
    picture: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    command, *options = arguments
    outcome = graphmill_cli(command, sums, f"@{picture}", *options, "--pixels", "0..255")
    assert outcome.code == 0, outcome.err
    assert outcome.err.count("white.png are scaled to 0..255\n") == 1
    assert command != "debug" or "1020" in outcome.out


@pytest.mark.parametrize("command", ["report", "explain"])
def test_pixels_need_a_step(graphmill_cli: Cli, sums: str, command: str) -> None:
    outcome = graphmill_cli(command, sums, "--pixels", "0..1")
    assert outcome.code == 2
    assert "--pixels" in outcome.err


@pytest.fixture
def queue_model(tmp_path: Path) -> str:
    """The path of a MetaGraph that takes a number from a queue, which a queue runner fills."""
    graph = graphmill.Graph()
    with graph.as_default():
        queue = ops.data_flow.fifo_queue_v2(component_types=["float32"], capacity=2)
        enqueue = ops.data_flow.queue_enqueue_v2(queue, [graph.constant(5.0)])
        train.add_queue_runner(train.QueueRunner.of_queue(queue, [enqueue]), graph)
        (element,) = ops.data_flow.queue_dequeue_v2(queue, component_types=["float32"])
        ops.math.neg(element, name="y")
    train.export_meta_graph(tmp_path / "m.meta", graph=graph)
    return str(tmp_path / "m.meta")


STEPS = [
    ("report", "--run", "--steps", "1"),
    ("explain", "--jit", "--steps", "1", "--memory"),
    ("compare", "--every-tensor"),
    ("compare", "--b", "float64"),
]


@pytest.mark.parametrize("arguments", [*STEPS, ("debug", "-x", "continue", "-x", "results")])
def test_queue_runners_fill_the_queues_of_steps(
    graphmill_cli: Cli,
    queue_model: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    command, *options = arguments
    outcome = graphmill_cli(command, queue_model, "--fetch", "y:0", *options, "--queue-runners")
    assert outcome.code == 0, outcome.err
    assert command != "debug" or "-5" in outcome.out


@pytest.mark.parametrize("arguments", [*STEPS, ("run",)])
def test_step_that_waits_for_a_queue_ends_with_advice(
    graphmill_cli: Cli, queue_model: str, arguments: tuple[str, ...]
) -> None:
    command, *options = arguments
    outcome = graphmill_cli(command, queue_model, "--fetch", "y:0", *options, "--timeout", "0.05")
    assert outcome.code != 0, outcome.err
    assert "did not end within its timeout of 50 ms" in outcome.err
    assert outcome.err.count("try: --queue-runners") == 1


@pytest.mark.parametrize("option", [("--queue-runners",), ("--timeout", "1")])
def test_options_of_steps_need_a_step(
    graphmill_cli: Cli, sums: str, option: tuple[str, ...]
) -> None:
    for command in ("report", "explain"):
        outcome = graphmill_cli(command, sums, *option)
        assert outcome.code == 2
        assert option[0] in outcome.err
