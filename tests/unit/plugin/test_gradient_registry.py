"""The registry of gradients: conflicts, and modules that are imported on the first look-up."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from graphmill.plugin.gradient_declaration import gradient
from graphmill.plugin.gradient_registry import GradientRegistry
from graphmill.registry import PluginConflictError, Provenance

if TYPE_CHECKING:
    from pathlib import Path

ONE, TWO = Provenance("one"), Provenance("two")
MODULE = "gradients_of_a_test"


@gradient("Mine>A", "Mine>B")
def of_both(op: Any, *grads: Any) -> Any:
    return grads


@gradient("Mine>B")
def of_one(op: Any, *grads: Any) -> Any:
    return grads


def op_def(name: str) -> Any:
    return SimpleNamespace(name=name, family="mine")


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = (
        "from graphmill.plugin.gradient_declaration import gradient\n"
        "@gradient('Mine>A', 'Mine>B')\n"
        "def of_both(op, *grads):\n"
        "    return grads\n"
    )
    (tmp_path / f"{MODULE}.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, MODULE, raising=False)


def test_gradients_of_which_one_conflicts_are_not_added() -> None:
    registry = GradientRegistry()
    registry.add(of_one, ONE)
    with pytest.raises(PluginConflictError, match="op Mine>B is registered by both"):
        registry.add(of_both, TWO)
    assert registry.ops() == ["Mine>B"]
    assert registry.find(op_def("Mine>A")) is None


def test_a_module_that_conflicts_is_reported_by_each_look_up(module: None) -> None:
    registry = GradientRegistry()
    registry.add(of_one, ONE)
    registry.add_family("mine", MODULE, owner=TWO)
    for _ in range(2):
        with pytest.raises(PluginConflictError, match="op Mine>B is registered by both"):
            registry.find(op_def("Mine>A"))
    registry.withdraw(ONE)
    found = registry.find(op_def("Mine>A"))
    assert found is not None
    assert getattr(found.function, "__module__", "") == MODULE


def test_the_higher_priority_wins(module: None) -> None:
    registry = GradientRegistry()
    registry.add(of_one, ONE, priority=1)
    registry.add_family("mine", MODULE, owner=TWO)
    found = registry.find(op_def("Mine>B"))
    assert found is not None
    assert found.function is of_one
    assert registry.ops() == ["Mine>A", "Mine>B"]
