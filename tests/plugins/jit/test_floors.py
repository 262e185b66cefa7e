"""The compiler's folders stand on floors: imports go downward and never in a circle."""

from __future__ import annotations

from graphlib import TopologicalSorter

import pytest
from tests.unit.test_floors import PLUGINS, imports_of, module_name, python_files

PACKAGE = "graphmill_plugins.jit"
FLOORS = (
    "ir",
    "analysis",
    "idioms",
    "tracing",
    "lowerings",
    "programs",
    "straight",
    "functionalize",
    "regions",
    "rewrites",
    "tiers",
    "cluster_kernel",
    "__init__",
)
"""From the lowest up; what each folder is for says the page on the compiler."""

FILES = {module_name(file): file for file in python_files(PLUGINS / "graphmill_plugins" / "jit")}


def floor_of(module: str) -> str:
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


def test_every_folder_has_a_floor() -> None:
    assert {floor_of(module) for module in FILES} == set(FLOORS)


@pytest.mark.parametrize("module", FILES)
def test_imports_go_downward(module: str) -> None:
    own = FLOORS.index(floor_of(module))
    for imported in imported_by(module):
        assert FLOORS.index(floor_of(imported)) <= own, f"{module} imports {imported}"


def test_no_modules_import_in_a_circle() -> None:
    graph = {module: imported_by(module) for module in FILES}
    assert len(list(TopologicalSorter(graph).static_order())) == len(FILES)  # raises CycleError
