"""Parts of a SavedModel beside its graph: assets, collections, savers, object graphs, aliases."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.security.hostile import EFFECTS, REFUSED, contents, make_targets, recorded
from tests.security.test_hostile_models import Model, asset_model, constant, model_of

import graphmill
from graphmill import errors, proto, saved_model
from graphmill.cli.main import run_command_line
from graphmill.testing.case_graph import GraphMaker
from graphmill.testing.case_nodes import parse_function

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "target"
    make_targets(found)
    return found


# --------------------------------------------------------------------------------------- assets

ASSETS: Final = (
    "../../target/one.txt",
    "..",
    ".",
    "",
    "a/../../../target/one.txt",
    "./../../target/one.txt",
    "..\\..\\target\\one.txt",
    "..\uff0f..\uff0ftarget\uff0fone.txt",
    "\u2025/\u2025/target/one.txt",
    "%2e%2e/%2e%2e/target/one.txt",
    "..%c0%af../target/one.txt",
    "..;/../target/one.txt",
    "one.txt\0/../../../target/one.txt",
    "../../target/one.txt.",
    "../../target/one.txt ",
    ".. /.. /target/one.txt",
    "file:../../target/one.txt",
    "file://{folder}/one.txt",
    "{folder}/one.txt",
    "//{folder}/one.txt",
    "~/../target/one.txt",
    "$HOME/one.txt",
    "/proc/self/environ",
    "/dev/stdin",
    "C:/one.txt",
    "\\\\?\\{folder}\\one.txt",
    "simplecache::{folder}/one.txt",
    "*/one.txt",
    "x" * 5000,
    "a/" * 3000 + "one.txt",
    unicodedata.normalize("NFD", "\u00e9") + ".txt",
)


@pytest.mark.parametrize("number", range(len(ASSETS)))
def test_name_of_an_asset_leaves_no_model(number: int, folder: Path, tmp_path: Path) -> None:
    name = ASSETS[number].replace("{folder}", str(folder))
    path = asset_model(tmp_path, name).write()
    (path / "assets").mkdir()
    with recorded(folder) as events, pytest.raises(errors.OpError) as caught:
        saved_model.load(path)
    assert events == []
    assert not isinstance(caught.value, errors.InternalError)
    assert len(caught.value.message) < 20_000


def test_name_of_an_asset_is_not_normalized(tmp_path: Path) -> None:
    """A file whose name is another form of the same letters is another file."""
    composed = unicodedata.normalize("NFC", "\u00e9") + ".txt"
    path = asset_model(tmp_path, unicodedata.normalize("NFD", composed)).write()
    (path / "assets").mkdir()
    (path / "assets" / composed).write_bytes(b"one\n")
    with pytest.raises(errors.NotFoundError):
        saved_model.load(path)


# ------------------------------------------------------------------ nodes that other parts name


def _runner(**fields: Any) -> bytes:
    return proto.QueueRunnerDef(**fields).SerializeToString()


def _nodes(key: str, *names: str) -> Callable[[Any], None]:
    return lambda meta: meta.collection_def[key].node_list.value.extend(names)


def _bytes(key: str, content: bytes) -> Callable[[Any], None]:
    return lambda meta: meta.collection_def[key].bytes_list.value.append(content)


def _aliased(meta: Any) -> None:
    """Call the function with the effect, which has the name of another as its alias."""
    maker = GraphMaker(graphmill.default_host().ops)
    maker.function(parse_function("act(f: string) -> (string): y = ReadFile(f); return y"))
    meta.graph_def.library.CopyFrom(maker.graph_def.library)
    meta.meta_info_def.function_aliases["act"] = "harmless"
    meta.graph_def.node.add(name="z", op="act", input=["f"])
    meta.signature_def["serving_default"].outputs["y"].name = "z:0"


def _filled_queue(meta: Any) -> None:
    """Let a queue runner fill a queue, from which the output of the signature is taken."""
    add = meta.graph_def.node.add
    queue = add(name="q", op="FIFOQueueV2")
    put = add(name="put", op="QueueEnqueueV2", input=["q", "y"])
    got = add(name="got", op="QueueDequeueV2", input=["q"])
    for node, attr in ((queue, "component_types"), (put, "Tcomponents"), (got, "component_types")):
        node.attr[attr].list.type.append(7)
    add(name="close", op="QueueCloseV2", input=["q"])
    runner = _runner(
        queue_name="q", enqueue_op_name=["put"], close_op_name="close", cancel_op_name="close"
    )
    del meta.collection_def["queue_runners"]
    _bytes("queue_runners", runner)(meta)
    meta.signature_def["serving_default"].outputs["y"].name = "got:0"


def _initializer(key: str) -> Callable[[Any], None]:
    variable = proto.VariableDef(
        variable_name="k:0", initializer_name="y", snapshot_name="k:0", initial_value_name="k:0"
    )
    return _bytes(key, variable.SerializeToString())


AT_LOAD: Final[dict[str, Callable[[Any], None]]] = {
    "the main op": _nodes("saved_model_main_op", "y"),
    "the main op with an output": _nodes("saved_model_main_op", "y:0"),
    "the old init op": _nodes("legacy_init_op", "y"),
}
AT_A_SIGNATURE: Final[dict[str, Callable[[Any], None]]] = {
    "an alias of a function": _aliased,
    "an output": lambda meta: None,
    "a default value": lambda meta: (
        meta.signature_def["serving_default"]
        .inputs["x"]
        .CopyFrom(proto.TensorInfo(name="f:0", dtype=7))
    ),
}
UNUSED: Final[dict[str, Callable[[Any], None]]] = {
    "the save op": lambda meta: setattr(meta.saver_def, "save_tensor_name", "y:0"),
    "a queue runner": _bytes("queue_runners", _runner(queue_name="k", enqueue_op_name=["y"])),
    "the end of a queue runner": _bytes(
        "queue_runners", _runner(queue_name="k", close_op_name="y", cancel_op_name="y")
    ),
    "the initializer of a variable": _initializer("variables"),
    "a summary": _nodes("summaries", "y:0"),
    "a table": _nodes("table_initializer", "y"),
    "a local initializer": _nodes("local_init_op", "y"),
    "the init op of a scaffold": _nodes("init_op", "y"),
    "the ready op of a scaffold": _nodes("ready_op", "y"),
    "a damaged queue runner": _bytes("queue_runners", b"\xff" * 9),
    "a damaged variable": _bytes("variables", b"\xff" * 9),
    "a damaged context": _bytes("while_context", b"\xff" * 9),
    "a collection of any type": lambda meta: meta.collection_def["x"].any_list.value.add(
        type_url="type.googleapis.com/graphmill.GraphDef", value=b"\xff"
    ),
    "an asset of a collection": _bytes(
        "saved_model_assets",
        proto.AssetFileDef(filename="../../target/one.txt").SerializeToString(),
    ),
    "a method": lambda meta: setattr(
        meta.signature_def["serving_default"], "method_name", "file:///etc/passwd"
    ),
}


def effect_model(name: str, folder: Path, tmp_path: Path, change: Callable[[Any], None]) -> Any:
    made = model_of(name, folder, tmp_path, "a stateful call")
    made.meta.graph_def.node.add(name="k", op="Identity", input=["f"]).attr["T"].type = 7
    change(made.meta)
    return made


@pytest.mark.parametrize("place", AT_LOAD)
@pytest.mark.parametrize("name", ["read a file", "write a file"])
def test_effect_of_a_part_that_runs_at_load_is_refused(
    name: str, place: str, folder: Path, tmp_path: Path
) -> None:
    path = effect_model(name, folder, tmp_path, AT_LOAD[place]).write()
    before = contents(folder)
    with recorded(folder) as events, pytest.raises(REFUSED, match="may not") as caught:
        saved_model.load(path)
    assert (caught.value.op_type, events) == (EFFECTS[name].op, [])
    assert caught.value.node
    assert contents(folder) == before


@pytest.mark.parametrize("place", AT_A_SIGNATURE)
def test_effect_of_a_part_that_a_signature_runs_is_refused(
    place: str, folder: Path, tmp_path: Path
) -> None:
    made = effect_model("read a file", folder, tmp_path, lambda meta: None)
    made.signature("serving_default", "y:0")
    AT_A_SIGNATURE[place](made.meta)
    path = made.write()
    with recorded(folder) as events, saved_model.load(path) as model:
        call = model.signatures["serving_default"]
        inputs = {"x": str(folder / "one.txt")} if place == "a default value" else {}
        with pytest.raises(REFUSED, match="ReadFile may not") as caught:
            call(**inputs)
    assert (caught.value.op_type, events) == ("ReadFile", [])


@pytest.mark.parametrize("place", UNUSED)
def test_part_that_no_step_needs_has_no_effect(place: str, folder: Path, tmp_path: Path) -> None:
    made = effect_model("write a file", folder, tmp_path, UNUSED[place])
    made.signature("serving_default", "k:0")
    path = made.write()
    before = contents(folder)
    with recorded(folder) as events, saved_model.load(path) as model:
        (value,) = model.signatures["serving_default"]().values()
    assert value == str(folder / "new.txt").encode()
    assert (events, contents(folder)) == ([], before)


RUN_BY_COMMANDS: Final[dict[str, Callable[[Any], None]]] = {
    "a queue runner": _filled_queue,
    "a table": UNUSED["a table"],
    "a local initializer": UNUSED["a local initializer"],
    "a local variable": _initializer("local_variables"),
    "a damaged queue runner": UNUSED["a damaged queue runner"],
    "a damaged variable": _bytes("local_variables", b"\xff" * 9),
}


@pytest.mark.parametrize("place", RUN_BY_COMMANDS)
def test_effect_of_a_queue_runner_is_refused(
    place: str, folder: Path, tmp_path: Path, capsys: Any
) -> None:
    made = effect_model("write a file", folder, tmp_path, lambda meta: None)
    made.signature("serving_default", "k:0")
    _bytes("queue_runners", _runner(queue_name="k", enqueue_op_name=["k"]))(made.meta)
    RUN_BY_COMMANDS[place](made.meta)
    path = made.write()
    before = contents(folder)
    with recorded(folder) as events:
        status = run_command_line(["run", str(path), "--queue-runners"])
    printed = capsys.readouterr().err
    assert (events, contents(folder)) == ([], before)
    assert status != 0
    assert ("damaged" if "damaged" in place else "WriteFile may not") in printed


# ------------------------------------------------------------------------------- object graphs


def _cycle(graph: Any) -> None:
    graph.nodes.add().children.add(node_id=0, local_name="self")


def _two(graph: Any) -> None:
    for other in (1, 0):
        graph.nodes.add().children.add(node_id=other, local_name="other")


def _far(graph: Any) -> None:
    for number in (-1, 2**31 - 1, 7):
        graph.nodes.add().children.add(node_id=number, local_name="x")


def _asset(graph: Any) -> None:
    graph.nodes.add().asset.asset_file_def_index = 2**31 - 1


def _function(graph: Any) -> None:
    graph.nodes.add().function.concrete_functions.append("no_such_function")
    graph.concrete_functions["act"].bound_inputs.extend([0, -1, 99])


def _children(graph: Any) -> None:
    first = graph.nodes.add()
    for number in range(50_000):
        first.children.add(node_id=0, local_name=f"n{number}")


def _deep(graph: Any) -> None:
    for number in range(20_000):
        graph.nodes.add().children.add(node_id=number + 1, local_name="next")


def _resource(graph: Any) -> None:
    graph.nodes.add().resource.device = "/job:evil/task:1"
    graph.nodes.add().captured_tensor.concrete_function = "act"
    graph.nodes.add().variable.name = "../../target/one.txt"


OBJECTS: Final = {
    "an object in itself": _cycle,
    "two objects in each other": _two,
    "children that do not exist": _far,
    "an asset that does not exist": _asset,
    "a function that does not exist": _function,
    "50,000 children": _children,
    "a long chain": _deep,
    "a resource elsewhere": _resource,
}


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize("command", ["load", "show", "scan", "explain"])
def test_object_graph_is_data(
    name: str, command: str, folder: Path, tmp_path: Path, capsys: Any
) -> None:
    made = Model(tmp_path / "model")
    made.meta.graph_def.node.append(constant("f", "text"))
    OBJECTS[name](made.meta.object_graph_def)
    made.signature("serving_default", "f:0")
    path = made.write()
    with recorded(folder) as events:
        if command == "load":
            with saved_model.load(path) as model:
                (value,) = model.signatures["serving_default"]().values()
                assert value == b"text"
        else:
            assert run_command_line([command, str(path)]) == 0, capsys.readouterr().err
    assert events == []
