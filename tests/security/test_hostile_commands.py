"""Every command that loads a model refuses its effects; the option in its message allows them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.security.hostile import EFFECTS, contents, make_targets, recorded
from tests.security.test_hostile_models import Model, command_line, constant, model_of

from graphmill import batch, errors

if TYPE_CHECKING:
    from pathlib import Path

COMMANDS = {
    "run": "run {model}",
    "run --trace": "run {model} --trace {out}/trace.json",
    "explain": "explain {model}",
    "explain --jit": "explain {model} --jit --steps 2",
    "explain --memory": "explain {model} --memory",
    "compare": "compare {model}",
    "debug": "debug {model} -x continue",
    "report": "report {model} --out {out}/report.html",
    "report --run": "report {model} --run --steps 2 --out {out}/report.html",
    "export": "export {model} --to saved_model --out {out}/exported",
    "freeze": "freeze {model} --out {out}/frozen.pb",
}
"""The commands that load a model. All run its initializers; some run its signature, too."""
ONLY_READ = {"show": "show {model} --ops", "scan": "scan {model} --all"}
"""The commands that only read its graph."""
RUN_A_STEP = ("run", "run --trace", "explain --jit", "compare", "report --run")
INITIALIZED = [("write a file", "the graph"), ("lines", "MapDataset"), ("read a file", "a call")]
DESTRUCTIVE = [name for name in ("write a file", "summaries", "abort") if name in EFFECTS]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_targets(tmp_path / "target")
    return tmp_path / "target"


def arguments(command: str, model: Path, out: Path) -> list[str]:
    out.mkdir(exist_ok=True)
    return [word.format(model=model, out=out) for word in command.split()]


def initialized(name: str, place: str, folder: Path, tmp_path: Path) -> Model:
    """Return a model whose initializer has an effect, and whose signature has none."""
    made = model_of(name, folder, tmp_path, place)
    made.meta.graph_def.node.append(constant("harmless", "x"))
    made.signature("serving_default", "harmless:0")
    made.meta.collection_def["saved_model_main_op"].node_list.value.append("y")
    return made


@pytest.mark.parametrize(("name", "place"), INITIALIZED)
@pytest.mark.parametrize("command", COMMANDS)
def test_initializer_is_refused_and_works_by_following_the_message(
    command: str,
    name: str,
    place: str,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = initialized(name, place, folder, tmp_path).write()
    before = contents(folder)
    words = arguments(COMMANDS[command], model, tmp_path / "out")
    with recorded(folder) as events:
        assert command_line(*words) != 0
    assert events == []
    assert contents(folder) == before
    message = capsys.readouterr().err
    assert f"the op {EFFECTS[name].op} may not" in message
    rule = message.partition("--allow ")[2].split()[0]
    assert command_line(*words, "--allow", rule) == 0, capsys.readouterr().err


@pytest.mark.parametrize("name", DESTRUCTIVE)
@pytest.mark.parametrize("command", COMMANDS)
def test_signature_is_refused_by_the_commands_that_run_it(
    command: str,
    name: str,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = model_of(name, folder, tmp_path)
    made.signature("serving_default", "y:0")
    model, before = made.write(), contents(folder)
    with recorded(folder) as events:
        status = command_line(*arguments(COMMANDS[command], model, tmp_path / "out"))
    assert events == []
    assert contents(folder) == before
    if command in RUN_A_STEP:
        assert status != 0
        assert f"the op {EFFECTS[name].op} may not" in capsys.readouterr().err


@pytest.mark.parametrize("command", ONLY_READ)
@pytest.mark.parametrize(("name", "place"), INITIALIZED)
def test_command_that_only_reads_the_graph_has_no_effect(
    command: str, name: str, place: str, folder: Path, tmp_path: Path
) -> None:
    model = initialized(name, place, folder, tmp_path).write()
    before = contents(folder)
    with recorded(folder) as events:
        assert command_line(*arguments(ONLY_READ[command], model, tmp_path / "out")) in (0, 1)
    assert events == []
    assert contents(folder) == before


def fed(name: str, folder: Path, tmp_path: Path) -> Model:
    """Return a model with an input, whose signature has an effect."""
    made = model_of(name, folder, tmp_path)
    entry = made.meta.graph_def.node.add(name="rows", op="Placeholder")
    entry.attr["dtype"].type = 1
    entry.attr["shape"].shape.dim.add(size=-1)
    copy = made.meta.graph_def.node.add(name="copy", op="Identity", input=["rows", "^y"])
    copy.attr["T"].type = 1
    signature = made.meta.signature_def["serving_default"]
    signature.method_name = "tensorflow/serving/predict"
    for ports, tensor in ((signature.inputs, "rows:0"), (signature.outputs, "copy:0")):
        ports["x"].name, ports["x"].dtype = tensor, 1
        ports["x"].tensor_shape.dim.add(size=-1)
    return made


def test_batch_is_refused_and_works_by_following_the_message(folder: Path, tmp_path: Path) -> None:
    model, rows = fed("read a file", folder, tmp_path).write(), [{"x": 1.0}, {"x": 2.0}]
    before = contents(folder)
    with pytest.raises(errors.PermissionDeniedError, match="the op ReadFile may not") as caught:
        list(batch.predict(model, rows))
    assert contents(folder) == before
    rule = caught.value.message.partition("allow=['")[2].partition("'")[0]
    answers = list(batch.predict(model, rows, allow=[rule]))
    assert [float(answer.outputs["x"]) for answer in answers] == [1.0, 2.0]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_batch_command_is_refused_and_works_by_following_the_message(
    jobs: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, rows, out = fed("write a file", folder, tmp_path).write(), tmp_path / "r.csv", tmp_path
    rows.write_text("x\n1.0\n2.0\n")
    words = f"run {model} --each {rows} --out {out}/out.csv --jobs {jobs}".split()
    before = contents(folder)
    assert command_line(*words) != 0
    assert contents(folder) == before
    message = capsys.readouterr().err
    assert "the op WriteFile may not" in message
    rule = message.partition("--allow ")[2].split()[0]
    assert command_line(*words, "--overwrite", "--allow", rule) == 0, capsys.readouterr().err


def test_served_model_is_refused_and_works_by_following_the_message(
    folder: Path, tmp_path: Path
) -> None:
    pytest.importorskip("uvicorn")
    from tests.plugins.serving.served_models import Client, options_for

    from graphmill_plugins.serving.model_server import ModelServer

    model, before = fed("read a file", folder, tmp_path).write(), contents(folder)
    allow: list[str] = []
    for expected in (403, 200):
        server = ModelServer(replace(options_for(model), allow=tuple(allow)))
        client = Client(server)
        try:
            status, answer = client.post("/v1/models/m:predict", {"instances": [1.0]})
        finally:
            client.close()
            server.stop()
        assert status == expected, answer
        allow.append(str(answer).partition("allow=['")[2].partition("'")[0])
    assert contents(folder) == before
