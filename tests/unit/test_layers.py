"""Imports go from higher to lower layers only, and some imports are forbidden.

Read from the source by `ast`: imports inside functions count, and `import_module("name")`; those
under `TYPE_CHECKING` do not.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.divided

ROOT = Path(__file__).parents[2]
CORE = ROOT / "core"
PLUGINS = ROOT / "plugins"

LAYERS: tuple[tuple[str, ...], ...] = (
    (
        "errors",
        "access",
        "deprecations",
        "distribution",
        "dtypes",
        "typing",
        "registry",
        "proto",
        "files",
        "memory",
        "memory_budget",
        "templates",
        "tensorflow_names",
    ),
    ("ops",),
    ("graph",),
    ("runtime",),
    ("plugin",),
    ("backprop",),
    ("lowering",),
    ("session", "explain"),
    ("distributed",),
    (
        "batch",
        "comparison",
        "debug",
        "isolation",
        "report",
        "export",
        "data",
        "functions",
        "initializers",
        "inputs",
        "json_data",
        "lazy_exports",
        "losses",
        "models",
        "summary",
        "saved",
        "saved_model",
        "tf_record",
        "timeline",
        "train",
        "__init__",
    ),
    ("cli", "spi", "__main__"),
)
LAYER_OF = {part: layer for layer, parts in enumerate(LAYERS) for part in parts}

FORBIDDEN_IN_CORE = ("graphmill_plugins", "jax", "jaxlib", "grpc")
SHARED_BY_PLUGINS = ("_constants", "_jax", "_lazy_jax", "_optional", "_server")
SESSION_MODULES = (
    "graphmill.session.session",
    "graphmill.session.options",
    # A worker runs the graphs of sessions that are elsewhere: their executors, tiers and pools.
    "graphmill.session.reports.cost_model",
    "graphmill.session.executors_cache",
    # A master refuses the settings that a session of this process refuses.
    "graphmill.session.config_check",
    # They write the graphs and descriptions of watched steps as such a session does.
    "graphmill.session.debugging.debug_metadata",
    # A master converts fed values to tensors as a session of this process does.
    "graphmill.session.steps.feeds",
    "graphmill.session.hot_steps",
    "graphmill.session.session_devices",
    "graphmill.session.thread_pools",
)
"""The modules of `session` that `distributed` may import."""


@cache
def imports_of(file: Path) -> tuple[str, ...]:
    """Return the modules that a file imports when it runs, `from a import b` as "a.b"."""
    package = module_name(file).split(".")
    if file.name != "__init__.py":
        package = package[:-1]
    return tuple(_imports(ast.parse(file.read_text(encoding="utf-8")), package))


def _imports(node: ast.AST, package: list[str]) -> Iterator[str]:
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        for child in node.orelse:
            yield from _imports(child, package)
        return
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = package[: len(package) - node.level + 1] if node.level else []
        source = ".".join([*base, *([node.module] if node.module else [])])
        yield from (f"{source}.{alias.name}" for alias in node.names)
    elif (
        isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith("import_module")
        and isinstance(node.args[0], ast.Constant)
    ):
        yield str(node.args[0].value)
    for child in ast.iter_child_nodes(node):
        yield from _imports(child, package)


def module_name(file: Path) -> str:
    root = CORE if file.is_relative_to(CORE) else PLUGINS
    parts = file.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def python_files(folder: Path) -> list[Path]:
    return sorted(file for file in folder.rglob("*.py") if not file.name.endswith("_pb2.py"))


def part_of(module: str) -> str:
    """Return the part of core that a module belongs to: "graphmill.ops.math" -> "ops"."""
    parts = module.split(".")
    if len(parts) == 1:
        return "__init__"
    found = CORE / "graphmill" / parts[1]
    is_module = found.is_dir() or found.with_suffix(".py").exists()
    return parts[1] if is_module else "__init__"  # `from graphmill import Session`


def is_within(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


CORE_FILES = python_files(CORE)
PLUGIN_FILES = python_files(PLUGINS)


def test_every_part_of_core_has_a_layer() -> None:
    parts = {part_of(module_name(file)) for file in CORE_FILES}
    assert parts - set(LAYER_OF) - {"testing"} == set()


INTERNAL = {"distribution", "lazy_exports", "templates", "tensorflow_names", "__init__", "__main__"}
"""Parts that the page about the layers leaves out."""


LAYER_ROW = re.compile(r"^ ?(\d+)  ((?:[a-z_ ]+\n    )*[a-z_]+(?:  [a-z_]+)*)   ", re.MULTILINE)
"""A row of the page's list with its continuation lines: the number and the packages."""


def test_page_lists_the_layers() -> None:
    text = (ROOT / "docs" / "explanation" / "organisation.md").read_text(encoding="utf-8")
    documented = {
        part: int(number)
        for number, parts in LAYER_ROW.findall(text)
        for part in re.findall(r"[a-z_]{3,}", parts)
    }
    assert {part: layer for part, layer in LAYER_OF.items() if part not in INTERNAL} == documented


@pytest.mark.parametrize("file", CORE_FILES, ids=module_name)
def test_core_imports_only_downward(file: Path) -> None:
    part = part_of(module_name(file))
    if part == "testing":
        return  # may import all of core
    for imported in imports_of(file):
        if not is_within(imported, "graphmill"):
            continue
        target = part_of(imported)
        assert target != "testing", f"{imported}: nothing imports testing"
        if target == "__init__" and LAYER_OF[part] < LAYER_OF["__init__"]:
            pytest.fail(f"{imported} is the façade; import it from where it is defined")
        assert LAYER_OF[target] <= LAYER_OF[part], f"{imported} is above {part}"


@pytest.mark.parametrize("file", CORE_FILES, ids=module_name)
def test_core_never_imports_plugins_or_their_libraries(file: Path) -> None:
    if part_of(module_name(file)) == "testing":
        return  # runs the conformance cases on every backend that is installed
    for imported in imports_of(file):
        assert not is_within(imported, *FORBIDDEN_IN_CORE), imported


@pytest.mark.parametrize("file", CORE_FILES, ids=module_name)
def test_distributed_imports_only_listed_modules_of_session(file: Path) -> None:
    part = part_of(module_name(file))
    for imported in imports_of(file):
        if part == "session":
            assert not is_within(imported, "graphmill.distributed"), imported
        if part == "distributed" and is_within(imported, "graphmill.session"):
            assert is_within(imported, *SESSION_MODULES), imported


@pytest.mark.parametrize("file", PLUGIN_FILES, ids=module_name)
def test_plugins_do_not_import_each_other(file: Path) -> None:
    own = module_name(file).split(".")[1:2]
    for imported in imports_of(file):
        if is_within(imported, "graphmill_plugins"):
            target = imported.split(".")[1:2]
            assert target == own or target[0] in SHARED_BY_PLUGINS, imported


@pytest.mark.parametrize("file", PLUGIN_FILES, ids=module_name)
def test_plugins_do_not_import_the_tests_kit(file: Path) -> None:
    for imported in imports_of(file):
        assert not is_within(imported, "graphmill.testing"), imported


@pytest.mark.parametrize(
    "file", python_files(PLUGINS / "graphmill_plugins" / "kernels"), ids=module_name
)
def test_only_jax_kernels_import_jax(file: Path) -> None:
    """Only JAX kernels import JAX, so that NumPy kernels are importable without it."""
    if is_within(module_name(file), "graphmill_plugins.kernels.jax"):
        return
    for imported in imports_of(file):
        assert not is_within(imported, "jax", "jaxlib"), imported


def test_propagator_is_single_threaded() -> None:
    file = PLUGINS / "graphmill_plugins" / "default_executor" / "propagator.py"
    libraries = ("threading", "_thread", "concurrent", "asyncio", "queue", "multiprocessing")
    for imported in imports_of(file):
        assert not is_within(imported, *libraries), imported
        assert not is_within(imported, "graphmill.runtime.threads.thread_pool"), imported


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import a.b, c", ["a.b", "c"]),
        ("from a import b, c as d", ["a.b", "a.c"]),
        ("def f():\n    import a", ["a"]),
        ("class C:\n    def f(self):\n        from a import b", ["a.b"]),
        ("if TYPE_CHECKING:\n    import a\nelse:\n    import b", ["b"]),
        ("import typing\nif typing.TYPE_CHECKING:\n    import a", ["typing"]),
        ("from . import x", ["graphmill.ops.x"]),
        ("from .x import y", ["graphmill.ops.x.y"]),
        ("from ..errors import z", ["graphmill.errors.z"]),
        ("importlib.import_module('a.b')", ["a.b"]),
        ("import_module(name)", []),
        ("try:\n    import a\nexcept ImportError:\n    import b", ["a", "b"]),
    ],
)
def test_how_imports_are_read(source: str, expected: list[str]) -> None:
    assert list(_imports(ast.parse(source), ["graphmill", "ops"])) == expected
