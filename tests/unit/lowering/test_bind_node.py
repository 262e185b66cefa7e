"""All kernels of a session are bound in one function that applies the effects policy."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

import graphmill
from graphmill.errors import PermissionDeniedError
from graphmill.lowering.bind_node import bind_node
from graphmill.lowering.policies.effects_policy import EffectsPolicy
from graphmill.runtime.kernels.kernel import KernelDef

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.divided

ROOT: Final = Path(__file__).parents[3]
SPI: Final = "core/graphmill/spi/"  # hands the function on
BINDERS: Final = {
    "core/graphmill/lowering/bind_node.py": "for all who run nodes of a session",
    "core/graphmill/runtime/checks/declaration_checks.py": "binds predicates, and no kernels",
    "core/graphmill/testing/oracle/reference_evaluator.py": "runs graphs without a session",
    "core/graphmill/testing/runners/kernel_runner.py": "runs nodes of op cases without a session",
    "contrib_devices/graphmill-torch/graphmill_torch/clusters.py": "the policy has passed the "
    "graphs that `Device.maybe_rewrite_graph` is given",
}


def sources() -> Iterator[Path]:
    for folder in ("core", "plugins", "contrib_devices", "contrib_executors"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "tests" not in path.relative_to(ROOT).parts:
                yield path


def binds(path: Path) -> bool:
    """Return whether a module imports `bind`, or uses it through its module."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and _has_bind(node.module or ""):
            if any(alias.name == "bind" for alias in node.names):
                return True
        elif (
            isinstance(node, ast.Attribute)
            and node.attr == "bind"
            and isinstance(node.value, ast.Name)
            and node.value.id in {"spi", "op_kernel"}
        ):
            return True
    return False


def _has_bind(module: str) -> bool:
    return module == "graphmill.runtime.kernels.op_kernel" or module.startswith("graphmill.spi")


def test_no_other_module_binds_kernels() -> None:
    found = {path.relative_to(ROOT).as_posix() for path in sources() if binds(path)}
    assert {name for name in found if not name.startswith(SPI)} == set(BINDERS)


def refused() -> Any:
    raise AssertionError("it was made")


@pytest.mark.parametrize("forbidden", ["net", "log"])
def test_forbidden_effect_is_refused_before_kernel_creation(forbidden: str) -> None:
    graph = graphmill.Graph()
    node = graph.create_op("PrintV2", [graph.constant(b"text")], name="n")
    definition = KernelDef(("PrintV2",), refused, make=True, effects=frozenset({"net"}))
    choice: Any = SimpleNamespace(definition=definition, owner=None)
    with pytest.raises(PermissionDeniedError, match=r"graphmill\.forbid_effects") as caught:
        bind_node(node, choice, EffectsPolicy({forbidden}), np)
    assert (caught.value.node, caught.value.op_type) == ("n", "PrintV2")
