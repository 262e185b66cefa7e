"""The compiler's folders form layers: imports go downward, without cycles."""

from __future__ import annotations

from graphlib import TopologicalSorter

import pytest
from tests.unit.test_layers import PLUGINS, imports_of, module_name, python_files

PACKAGE = "graphmill_plugins.jit"
LAYERS = (
    "ir",
    "analysis",
    "idioms",
    "tracing",
    "lowerings",
    "programs",
    "straight",
    "functionalize",
    "clustering",
    "rewrites",
    "tiers",
    "export",
    "cluster_kernel",
    "__init__",
)
"""The folders from the lowest layer up; the page on the compiler describes each."""

FILES = {module_name(file): file for file in python_files(PLUGINS / "graphmill_plugins" / "jit")}


def layer_of(module: str) -> str:
    parts = module.removeprefix(PACKAGE).strip(".").split(".")
    return parts[0] or "__init__"


def imported_by(module: str) -> set[str]:
    """Return the modules of the compiler that one imports when it runs."""
    found = set()
    for name in imports_of(FILES[module]):
        known = name
        while known and known not in FILES:
            known = known.rpartition(".")[0]
        if known.startswith(PACKAGE) and known != module:
            found.add(known)
    return found


def test_every_folder_has_a_layer() -> None:
    assert {layer_of(module) for module in FILES} == set(LAYERS)


@pytest.mark.parametrize("module", FILES)
def test_imports_go_downward(module: str) -> None:
    own = LAYERS.index(layer_of(module))
    for imported in imported_by(module):
        assert LAYERS.index(layer_of(imported)) <= own, f"{module} imports {imported}"


def test_no_modules_import_in_a_circle() -> None:
    graph = {module: imported_by(module) for module in FILES}
    assert len(list(TopologicalSorter(graph).static_order())) == len(FILES)  # raises CycleError
