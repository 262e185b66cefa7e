"""Every hook is documented, its example works, and the reference page is up to date."""

from __future__ import annotations

import importlib.util
import inspect
import logging
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import graphmill
from graphmill import dtypes
from graphmill.ops.definition.op_def import ArgDef, OpDef
from graphmill.plugin import hookspecs
from graphmill.plugin.host import Host
from graphmill.plugin.manager import HOOKS
from graphmill.plugin.step_observers import StepInfo

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
GOOD_PLUGIN = ROOT / "tests" / "data" / "fake_dists" / "good" / "fake_downstream" / "__init__.py"


def load_tool() -> Any:
    spec = importlib.util.spec_from_file_location(
        "make_hook_reference", ROOT / "tools" / "make_hook_reference.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = load_tool()

# What the example of each hook must have brought about.
EFFECTS: dict[str, Callable[[Host], bool]] = {
    "graphmill_register_ops": lambda host: "Downstream>Twice" in host.ops,
    "graphmill_register_kernels": lambda host: (
        host.plugins[0].registered["kernels"] == ["Downstream>Twice"]
    ),
    "graphmill_register_gradients": lambda host: host.gradients.ops() == ["Downstream>Twice"],
    "graphmill_register_devices": lambda host: host.devices.priority("NPU") == 150,
    "graphmill_register_executors": lambda host: "COUNTING" in host.executors,
    "graphmill_register_passes": lambda host: (
        host.passes.schedule("drop_asserts").phase == "PRE_PLACEMENT"
    ),
    "graphmill_register_transports": lambda host: "rdma" in host.transports,
    "graphmill_register_variants": lambda host: "Downstream>Pair" in host.variants,
    "graphmill_register_session_factories": lambda host: "quic" in host.session_factories,
    "graphmill_register_servers": lambda host: "quic" in host.servers,
    "graphmill_register_commands": lambda host: "model-size" in host.commands,
    "graphmill_register_exporters": lambda host: "openvino" in host.exporters,
    "graphmill_register_conversions": lambda host: "Downstream>Twice" in host.conversions("onnx"),
}


def host_with_example(hook: str) -> Host:
    plugin = types.ModuleType("example")
    vars(plugin).update(
        graphmill=graphmill, OpDef=OpDef, ArgDef=ArgDef, dtypes=dtypes, logging=logging
    )
    exec(TOOL.example(getattr(hookspecs, hook)), vars(plugin))
    assert hasattr(plugin, hook)
    return Host([plugin], load_entry_points=False)


@pytest.mark.parametrize("hook", HOOKS)
def test_hook_docstrings_are_complete(hook: str) -> None:
    text = inspect.getdoc(getattr(hookspecs, hook))
    assert text is not None
    for field in (*TOOL.FIELDS, "Example:"):
        assert f"\n{field}:" in text


@pytest.mark.parametrize("hook", sorted(EFFECTS))
def test_example_registers_what_it_documents(hook: str) -> None:
    assert EFFECTS[hook](host_with_example(hook))


def test_the_example_of_configure_logs_a_missing_plugin(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        host_with_example("graphmill_configure")
    assert "no NPU plugin" in caplog.text


@pytest.mark.parametrize("hook", ["graphmill_step_started", "graphmill_step_finished"])
def test_the_examples_of_the_step_hooks_print_the_step(
    hook: str, capsys: pytest.CaptureFixture[str]
) -> None:
    observers = host_with_example(hook).step_observers
    assert observers is not None
    step = StepInfo(7, "mine", [], ["y:0"], [])
    observers.started(step)
    observers.finished(step, 0.5)
    assert capsys.readouterr().out.startswith("step 7 ")


@pytest.mark.parametrize("hook", HOOKS)
def test_a_plugin_that_is_tested_uses_the_hook(hook: str) -> None:
    assert f"def {hook}(" in GOOD_PLUGIN.read_text(encoding="utf-8")


@pytest.mark.parametrize("hook", HOOKS)
def test_the_reference_has_the_hook(hook: str) -> None:
    assert f"## `{hook}`" in TOOL.PAGE.read_text(encoding="utf-8")


def test_the_reference_is_up_to_date() -> None:
    assert TOOL.main(["--check"]) == 0


def test_hookspecs_imports_nothing_but_its_marker() -> None:
    """The hook specifications import no types at run time, so that hosts need no higher layers."""
    names = [n for n, value in vars(hookspecs).items() if isinstance(value, type)]
    assert names == []
