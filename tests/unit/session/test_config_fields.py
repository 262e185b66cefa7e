"""Every field of the configuration acts, is refused, or has no effect for a stated reason."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import graphmill
from graphmill import errors, ops, proto
from graphmill.session.config_check import OPTIMIZERS, REFUSED

ROOT = Path(__file__).parents[3]


def load_tool() -> Any:
    path = ROOT / "tools" / "make_config_reference.py"
    spec = importlib.util.spec_from_file_location("make_config_reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


TOOL = load_tool()
PATHS = {message: TOOL.paths_of(message) for message in TOOL.MESSAGES}
ROWS = [(message, path) for message in TOOL.MESSAGES for path in PATHS[message]]


def set_field(message: Any, path: str) -> None:
    """Set a field to a value other than its default."""
    *parents, name = path.split(".")
    for parent in parents:
        child = getattr(message, parent)
        message = child.add() if hasattr(child, "add") else child
    field = message.DESCRIPTOR.fields_by_name[name]
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key = field.message_type.fields_by_name["key"]
        getattr(message, name)["a" if key.type == key.TYPE_STRING else 1]  # adds an entry
        return
    value: Any = {field.CPPTYPE_STRING: "a", field.CPPTYPE_BOOL: True}.get(field.cpp_type, 1)
    if field.message_type is not None:
        getattr(message, name).add()
    elif field.is_repeated if hasattr(field, "is_repeated") else field.label == 3:
        getattr(message, name).append(value)
    else:
        setattr(message, name, value)


def test_the_page_is_up_to_date_and_complete() -> None:
    assert TOOL.main(["--check"]) == 0


@pytest.mark.parametrize("message", TOOL.MESSAGES)
def test_every_declaration_is_of_some_field(message: str) -> None:
    known = TOOL.declared(message)
    used = {TOOL.declaration_of(path, known) for path in PATHS[message]}
    assert set(known) - used == set()


def test_fields_that_act_are_read() -> None:
    folders = (ROOT / "core" / "graphmill", ROOT / "plugins" / "graphmill_plugins")
    files = [path for folder in folders for path in folder.rglob("*.py")]
    source = "\n".join(
        path.read_text("utf-8") for path in files if path.parent.name not in ("proto", "testing")
    )
    for message in TOOL.MESSAGES:
        for name, field in TOOL.declared(message).items():
            leaf = name.removesuffix(".*").rpartition(".")[2]
            if field.effect == "acts":
                assert re.search(rf"\.{leaf}\b|\"{leaf}\"", source), name


@pytest.mark.parametrize("path", REFUSED)
def test_a_refused_field_is_named(path: str) -> None:
    config = proto.ConfigProto()
    set_field(config, path)
    kind, _ = REFUSED[path]
    with pytest.raises(kind, match=re.escape(f"config.{path} is not supported: ")):
        graphmill.Session(graph=graphmill.Graph(), config=config)


def ineffective() -> list[str]:
    known = TOOL.declared("ConfigProto")
    names = {path: TOOL.declaration_of(path, known) for path in PATHS["ConfigProto"]}
    return [path for path, name in names.items() if known[name].effect == "no effect"]


@pytest.mark.parametrize("path", ineffective())
def test_a_field_without_effect_changes_no_result(path: str) -> None:
    config = proto.ConfigProto()
    set_field(config, path)
    assert config != proto.ConfigProto()
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [], name="x")
        ops.math.add_v2(ops.math.mul(x, 2.0), 1.0, name="y")
    with graphmill.Session(graph=graph, config=config) as session:
        assert session.run("y:0", {"x:0": 3}) == 7


def test_an_unknown_optimizer_is_refused_with_near_names() -> None:
    config = {"graph_options": {"rewrite_options": {"optimizers": ["constfolds"]}}}
    with pytest.raises(errors.InvalidArgumentError, match=r"'constfolds'.*mean 'constfold'"):
        graphmill.Session(graph=graphmill.Graph(), config=config)


def settings_for(name: str) -> proto.ConfigProto:
    config = proto.ConfigProto()
    config.graph_options.rewrite_options.custom_optimizers.add(name=name)
    return config


def test_settings_for_a_missing_plugin_are_reported() -> None:
    with pytest.warns(UserWarning, match=r"settings for 'defualt_executor'.*'default_executor'"):
        graphmill.Session(graph=graphmill.Graph(), config=settings_for("defualt_executor")).close()


@pytest.mark.parametrize("name", ["default_executor", "INLINE", "constant_folding"])
def test_settings_for_a_plugin_or_its_registrations_give_no_warning(name: str) -> None:
    graphmill.Session(graph=graphmill.Graph(), config=settings_for(name)).close()


@pytest.mark.parametrize(
    ("optimizers", "expected"),
    [
        (["constfold"], ["Const", "_Retval"]),
        (["pruning"], ["Const", "Const", "Fill", "_Retval"]),
        (sorted(OPTIMIZERS), ["Const", "_Retval"]),
        ([], ["Const", "_Retval"]),
    ],
)
def test_a_list_of_optimizers_is_all_that_runs(optimizers: list[str], expected: Any) -> None:
    graph = graphmill.Graph()
    with graph.as_default():
        ops.array.fill([10], 1.0, name="f")
    config = {"graph_options": {"rewrite_options": {"optimizers": optimizers}}}
    metadata = graphmill.RunMetadata()
    with graphmill.Session(graph=graph, config=config) as session:
        session.run("f:0", options={"output_partition_graphs": True}, run_metadata=metadata)
    assert sorted(node.op for part in metadata.partition_graphs for node in part.node) == expected
