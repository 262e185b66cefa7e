"""Names and texts of a model neither control a terminal nor look like output of the program."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.shell_completion import ShellComplete
from tests.security.test_hostile_models import Model, command_line, constant

from graphmill import proto
from graphmill.cli.main import cli
from graphmill.cli.options import Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TEXT: Final = "a\x1b]0;owned\x07\x1b[1A\x1b[2K\x9b2J\r\nforged: no effects\u202e"
"""Sets the title of the window, removes lines, starts a line of its own and reverses text."""
CONTROL: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|^forged", re.MULTILINE
)
COMMANDS: Final = {
    "show": "show {model} --ops",
    "scan": "scan {model} --all",
    "scan --json": "scan {model} --all --json",
    "show --json": "show {model} --ops --json",
    "explain": "explain {model}",
    "run": "run {model}",
    "run --json": "run {model} --json",
    "freeze": "freeze {model} --out {out}/frozen.pb",
    "report": "report {model} --run --steps 1 --out {out}/report.html",
}


def _signature(meta: Any) -> Any:
    return meta.signature_def["serving_default"]


def _rename(messages: Any, old: str) -> None:
    copy = type(messages[old])()
    copy.CopyFrom(messages[old])
    del messages[old]
    messages[TEXT].CopyFrom(copy)


def _add(meta: Any, op: str, name: str = "z", **attrs: Any) -> Any:
    node = meta.graph_def.node.add(name=name, op=op, **attrs)
    meta.signature_def["serving_default"].outputs["z"].name = f"{name}:0"
    meta.signature_def["serving_default"].outputs["z"].dtype = 7
    return node


def _identity(meta: Any, **attrs: Any) -> Any:
    node = _add(meta, "Identity", input=["c"], **attrs)
    node.attr["T"].type = 7
    return node


def _function(meta: Any, body: str = "Identity") -> None:
    function = meta.graph_def.library.function.add()
    function.signature.name = TEXT
    function.signature.description = TEXT
    function.signature.input_arg.add(name="x", type=7)
    function.signature.output_arg.add(name="y", type=7)
    inner = function.node_def.add(name="inner", op=body, input=["x"])
    output = "contents" if body == "ReadFile" else "output"
    if body == "Identity":
        inner.attr["T"].type = 7
    function.ret["y"] = f"inner:{output}:0"
    call = _add(meta, "PartitionedCall", input=["c"])
    call.attr["Tin"].list.type.append(7)
    call.attr["Tout"].list.type.append(7)
    call.attr["f"].func.name = TEXT


def _asset(meta: Any) -> None:
    asset = meta.asset_file_def.add(filename=TEXT)
    asset.tensor_info.name = "c:0"


def _path(meta: Any) -> None:
    meta.graph_def.node.append(constant("p", f"/etc/{TEXT}"))
    _add(meta, "ReadFile", input=["p"])


def _table(meta: Any) -> None:
    node = meta.graph_def.node.add(name="h", op="MutableHashTableV2")
    node.attr["key_dtype"].type, node.attr["value_dtype"].type = 7, 7
    node.attr["shared_name"].s = node.attr["container"].s = TEXT.encode()
    node = _add(meta, "LookupTableFindV2", input=["h", "c", "c"])
    node.attr["Tin"].type = node.attr["Tout"].type = 7


def _assert(meta: Any) -> None:
    node = meta.graph_def.node.add(name="b", op="Const")
    node.attr["dtype"].type = 10
    node.attr["value"].tensor.dtype = 10
    node.attr["value"].tensor.tensor_shape.SetInParent()
    node.attr["value"].tensor.bool_val.append(False)
    meta.graph_def.node.append(constant("t", TEXT))
    node = meta.graph_def.node.add(name="a", op="Assert", input=["b", "t"])
    node.attr["T"].list.type.append(7)
    _identity(meta).input.append("^a")


def _result(meta: Any) -> None:
    meta.graph_def.node.append(constant("t", TEXT))
    _signature(meta).outputs["z"].name = "t:0"
    _signature(meta).outputs["z"].dtype = 7


def _number(meta: Any) -> None:
    meta.graph_def.node.append(constant("t", TEXT))
    node = _add(meta, "StringToNumber", input=["t"])
    node.attr["out_type"].type = 1
    _signature(meta).outputs["z"].dtype = 1


PLACES: Final[dict[str, Callable[[Any], None]]] = {
    "a signature": lambda meta: _rename(meta.signature_def, "serving_default"),
    "an input": lambda meta: (
        _signature(meta).inputs[TEXT].MergeFrom(proto.TensorInfo(name="c:0", dtype=7))
    ),
    "an output": lambda meta: _rename(_signature(meta).outputs, "y"),
    "a method": lambda meta: setattr(_signature(meta), "method_name", TEXT),
    "a tensor of a signature": lambda meta: setattr(_signature(meta).outputs["y"], "name", TEXT),
    "a default value": lambda meta: (
        _signature(meta)
        .defaults["x"]
        .MergeFrom(proto.TensorProto(dtype=7, string_val=[TEXT.encode()]))
    ),
    "a tag": lambda meta: meta.meta_info_def.tags.append(TEXT),
    "the version": lambda meta: setattr(meta.meta_info_def, "tensorflow_version", TEXT),
    "the git version": lambda meta: setattr(meta.meta_info_def, "tensorflow_git_version", TEXT),
    "the name of the graph": lambda meta: setattr(meta.meta_info_def, "meta_graph_version", TEXT),
    "an unknown op": lambda meta: _add(meta, f"Op{TEXT}") and None,
    "an op of the model's list": lambda meta: (
        meta.meta_info_def.stripped_op_list.op.add(name=TEXT) and None
    ),
    "a node": lambda meta: _add(meta, "NoOp", name=TEXT) and None,
    "an input of a node": lambda meta: _add(meta, "Identity", input=[TEXT]) and None,
    "a control input": lambda meta: _identity(meta).input.append(f"^{TEXT}"),
    "a device": lambda meta: _identity(meta, device=f"/job:{TEXT}") and None,
    "the index of a device": lambda meta: _identity(meta, device=f"/CPU:{TEXT}") and None,
    "an attr": lambda meta: setattr(_identity(meta).attr[TEXT], "i", 1),
    "an internal attr": lambda meta: setattr(_identity(meta).attr[f"_{TEXT}"], "i", 1),
    "a colocation": lambda meta: (
        _identity(meta).attr["_class"].list.s.append(f"loc:@{TEXT}".encode())
    ),
    "a kernel label": lambda meta: setattr(_identity(meta).attr["_kernel"], "s", TEXT.encode()),
    "a type": lambda meta: setattr(_identity(meta).attr["T"], "placeholder", TEXT),
    "a function": _function,
    "a function with an effect": lambda meta: _function(meta, "ReadFile"),
    "a function of an unknown op": lambda meta: _function(meta, TEXT),
    "a gradient": lambda meta: (
        meta.graph_def.library.gradient.add(function_name=TEXT, gradient_func=TEXT) and None
    ),
    "the source of a node": lambda meta: _identity(
        meta
    ).experimental_debug_info.original_node_names.append(TEXT),
    "an asset": _asset,
    "a path": _path,
    "a shared name": _table,
    "a failed assertion": _assert,
    "a result": _result,
    "a number": _number,
    "a collection": lambda meta: meta.collection_def[TEXT].node_list.value.append(TEXT),
    "an initializer": lambda meta: meta.collection_def[
        "saved_model_main_op"
    ].node_list.value.append(TEXT),
}


def model_with(place: str, folder: Path) -> Path:
    made = Model(folder)
    made.meta.graph_def.node.append(constant("c", "harmless"))
    made.signature("serving_default", "c:0")
    PLACES[place](made.meta)
    return made.write()


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("command", COMMANDS)
def test_text_of_a_model_does_not_control_the_terminal(
    command: str,
    place: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = model_with(place, tmp_path / "model")
    words = [word.format(model=model, out=tmp_path) for word in COMMANDS[command].split()]
    command_line(*words)
    out, err = capsys.readouterr()
    assert CONTROL.search(out) is None, repr(out)
    assert CONTROL.search(err) is None, repr(err)
    assert CONTROL.search(caplog.text) is None, repr(caplog.text)
    if "--json" in words and out:  # an error is written to stderr
        json.loads(out)


# --------------------------------------------------------------------- what names become elsewhere

MARKUP: Final = "</script><img src=x onerror=alert(1)>\"'`&"


def test_report_contains_no_markup_of_a_model(tmp_path: Path) -> None:
    made = Model(tmp_path / "model")
    made.meta.graph_def.node.append(constant("c", MARKUP))
    made.signature("serving_default", "c:0", MARKUP)
    made.meta.meta_info_def.tensorflow_version = MARKUP
    made.meta.meta_info_def.tags.append(MARKUP)
    _identity(made.meta).attr[MARKUP].s = MARKUP.encode()
    _function(made.meta)
    function = made.meta.graph_def.library.function[0]
    function.signature.name = function.signature.description = MARKUP
    made.meta.graph_def.node[-1].name = "call"
    made.meta.graph_def.node[-1].attr["f"].func.name = MARKUP
    _rename(made.meta.signature_def, "serving_default")
    model, page = made.write(), tmp_path / "report.html"
    assert command_line("report", str(model), "--run", "--steps", "1", "--out", str(page)) == 0
    text = page.read_text(encoding="utf-8")
    assert "<img" not in text
    assert "onerror=alert(1)>" not in re.sub(r"&lt;[^<]*|\\u003c[^<]*", "", text)
    assert text.count("</script>") == text.count("<script")


INSERTED: Final = (
    "$(touch evil)",
    "`touch evil`",
    "x;touch evil",
    "x|sh",
    "x&",
    "a\ntouch evil",
    "x>evil",
    "*",
    "~root",
    "{a,b}",
    "'",
    '"',
    "\\",
    "!!",
    "#",
    "--allow",
    "-h",
    "a b",
    "\x1b[A",
)


@pytest.mark.parametrize("name", INSERTED)
def test_shell_offers_no_name_that_it_would_interpret(name: str, tmp_path: Path) -> None:
    made = Model(tmp_path / "model")
    made.meta.graph_def.node.append(constant("c", "harmless"))
    for key in ("plain", name):
        made.signature(key, "c:0")
        made.meta.signature_def[key].inputs[name].name = "c:0"
        made.meta.signature_def[key].inputs["plain"].name = "c:0"
    model = str(made.write())
    shell = ShellComplete(cli, {"obj": Settings()}, "graphmill", "_GRAPHMILL_COMPLETE")
    inputs = [item.value for item in shell.get_completions(["run", model], "")]
    keys = [item.value for item in shell.get_completions(["show", model, "--signature"], "")]
    assert (inputs, keys) == (["plain="], ["plain"])


@pytest.mark.parametrize(
    "name", ["../../evil", "/evil", "..", "a\x00b", "..\\evil", "C:evil", "n" * 400, "", "a\nb"]
)
def test_outputs_are_written_to_the_chosen_folder(name: str, tmp_path: Path) -> None:
    made = Model(tmp_path / "model")
    made.meta.graph_def.node.append(constant("c", "harmless"))
    made.signature("serving_default", "c:0", name)
    model, out = made.write(), tmp_path / "deep" / "out"
    before = {str(path) for path in tmp_path.rglob("*")}
    command_line("run", str(model), "--outdir", str(out))
    made_now = {str(path) for path in tmp_path.rglob("*")} - before
    assert all(path == str(out.parent) or path.startswith(str(out)) for path in made_now)


def test_no_output_is_written_over_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = Model(tmp_path / "model")
    made.meta.graph_def.node.append(constant("c", "harmless"))
    for name in ("a/b", "a_b"):
        made.signature("serving_default", "c:0", name)
    out = tmp_path / "out"
    assert command_line("run", str(made.write()), "--outdir", str(out)) == 3
    assert "'a/b' and 'a_b' would be written to the same file" in capsys.readouterr().err
    assert not out.exists()
