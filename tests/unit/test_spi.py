"""`graphmill.spi`: names exist, load lazily and have types."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import runpy
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from graphmill import spi

if TYPE_CHECKING:
    from types import ModuleType

CONCEPTS = [
    importlib.import_module(f"graphmill.spi.{info.name}")
    for info in pkgutil.iter_modules(spi.__path__)
    if not info.name.startswith("_")
]
MODULES = [spi, *CONCEPTS]
NAMES = [(module, name) for module in MODULES for name in module.__all__]


def named(value: object) -> str:
    return getattr(value, "__name__", str(value))


@pytest.mark.parametrize(("module", "name"), NAMES, ids=named)
def test_every_name_exists(module: ModuleType, name: str) -> None:
    assert getattr(module, name) is not None


@pytest.mark.parametrize("module", MODULES, ids=named)
def test_types_and_values_come_from_the_same_place(module: ModuleType) -> None:
    """Imports under TYPE_CHECKING name the same modules as the lazy ones."""
    tree = ast.parse(Path(module.__file__ or "").read_text("utf-8"))
    (block,) = (s for s in tree.body if isinstance(s, ast.If))
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    typed = {
        (found.module, alias.name)
        for found in block.body
        if isinstance(found, ast.ImportFrom)
        for alias in found.names
    }
    assert all(a.asname == a.name for s in block.body for a in getattr(s, "names", ()))
    assert typed == given(block)
    own = {"VERSION"} if module is spi else set()
    assert sorted(own | {name for _, name in typed}) == module.__all__


def given(block: ast.If) -> set[tuple[str | None, str]]:
    """Return (module, name) of the arguments of `lazy_names`."""
    (homes,) = (n for s in block.orelse for n in ast.walk(s) if isinstance(n, ast.Dict))
    pairs = ast.literal_eval(homes).items()
    modules = {("graphmill", home.rpartition(".")[2]) for home, names in pairs if not names}
    return modules | {(home, name) for home, names in pairs for name in names.split()}


def test_a_name_is_in_one_place_only() -> None:
    assert [n for n, count in Counter(n for _, n in NAMES).items() if count > 1] == []


def test_the_package_names_its_modules() -> None:
    for module in CONCEPTS:
        assert f"`{module.__name__.rpartition('.')[2]}`" in (spi.__doc__ or "")


@pytest.mark.parametrize(
    ("module", "name", "message"),
    [
        (spi, "Devise", r"^graphmill\.spi 1\.\d+ has no 'Devise'; did you mean 'Device'"),
        (CONCEPTS[0], "BundleRaeder", r"^graphmill\.spi\.checkpoints 1\.\d+ has no 'Bun.*Reader'"),
    ],
    ids=named,
)
def test_missing_name_is_reported_with_the_version(
    module: ModuleType, name: str, message: str
) -> None:
    with pytest.raises(AttributeError, match=message):
        getattr(module, name)


def test_a_plugin_module_pays_for_the_marker_only() -> None:
    code = (
        "import sys; from graphmill.spi import hookimpl\n"
        "assert not {'numpy', 'graphmill.runtime.devices', 'graphmill.ops'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("module", CONCEPTS, ids=named)
def test_spi_module_imports_lazily(module: ModuleType) -> None:
    statement = f"import sys, {module.__name__}"
    code = f"{statement}\nassert not {{'numpy', 'graphmill.ops'}} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_reference_page_is_up_to_date() -> None:
    """The reference page is up to date, and every name has a docstring."""
    file = Path(__file__).parents[2] / "tools" / "make_spi_reference.py"
    tool = runpy.run_path(str(file))
    assert tool["PAGE"].read_text("utf-8") == tool["page"]()
