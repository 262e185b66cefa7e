"""The examples in the docstrings of public names run, and print the output shown.

An example may use `graphmill`, `np` (NumPy), `F` (`graphmill.functions`), `Dataset` and
`TensorSpec` (of `graphmill.data`), and `session`, a session of the default graph, which is empty.
The folder `digits` has a SavedModel; the graph `model.pb` computes `y:0`, which is twice `x:0`.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import io
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest
from tests.docs.test_snippets import assert_output

import graphmill

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.divided

ROOT = Path(__file__).resolve().parents[2]
_EXAMPLE = re.compile(r"^\n((?:    .*\n|\n(?=    ))+)", re.MULTILINE)
"""Indented lines after an empty line."""
_SECTION = re.compile(r"^(?:Args|Returns|Raises|Attributes|Yields|Threads):", re.MULTILINE)
_PRINTED = re.compile(r"^\s*print\(.*\)  # (?P<text>.+)$", re.MULTILINE)
NEEDED_PACKAGE: Final = {"graphmill.Server": "grpc"}
"""The package without which an example is not run, by the name whose docstring has it."""
_MODULES: Final = (
    *("graphmill", "graphmill.saved_model", "graphmill.batch", "graphmill.export"),
    *("graphmill.tf_record", "graphmill.train", "graphmill.losses", "graphmill.initializers"),
    *("graphmill.data", "graphmill.functions", "graphmill.report", "graphmill.comparison"),
    *("graphmill.debug", "graphmill.summary", "graphmill.explain", "graphmill.timeline"),
)


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module that writes the pages of the Python API."""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    path = ROOT / "tools" / "make_api_reference.py"
    spec = importlib.util.spec_from_file_location("make_api_reference", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def documented(tool: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield a module, its public names and their methods, each with its name."""
    module = importlib.import_module(name)
    yield name, module
    for public in tool.public_names(module):
        value = getattr(module, public)
        yield f"{name}.{public}", value
        for method, member in inspect.getmembers(value) if inspect.isclass(value) else ():
            if not method.startswith("_") and inspect.isroutine(member):
                yield f"{name}.{public}.{method}", member


def examples(tool: Any, module: str) -> dict[str, str]:
    """Return the code of the examples of a module, by the name whose docstring has it."""
    found = {}
    for name, value in documented(tool, module):
        text = inspect.cleandoc(getattr(value, "__doc__", None) or "")
        before_sections = _SECTION.split(text, maxsplit=1)[0]
        code = "".join(match[1] for match in _EXAMPLE.finditer(f"{before_sections}\n"))
        if code:
            found[name] = textwrap.dedent(code)
    return found


def write_model(path: Path) -> None:
    """Write a GraphDef that computes `y:0`, which is twice `x:0`."""
    graph = graphmill.Graph()
    with graph.as_default():
        x = graphmill.functions.placeholder("float32", [None], name="x")
        graphmill.ops.math.mul(x, 2.0, name="y")
    path.write_bytes(graph.as_graph_def().SerializeToString())


def run_example(name: str, code: str) -> str:
    """Run an example with an empty default graph, and return its output."""
    names: dict[str, Any] = {"graphmill": graphmill, "np": np, "F": graphmill.functions}
    names |= {"Dataset": graphmill.data.Dataset, "TensorSpec": graphmill.data.TensorSpec}
    with graphmill.Graph().as_default() as graph, graphmill.Session(graph=graph) as session:
        names |= {"session": session, "__name__": name}
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, name, "exec"), names)
    return printed.getvalue()


@pytest.mark.parametrize("module", _MODULES)
def test_examples_print_what_they_show(
    tool: Any, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, code in examples(tool, module).items():
        if importlib.util.find_spec(NEEDED_PACKAGE.get(name, "graphmill")) is None:
            continue
        folder = tmp_path / name
        folder.mkdir()
        (folder / "digits").symlink_to(ROOT / "examples" / "digits" / "saved_model_tf2")
        write_model(folder / "model.pb")
        monkeypatch.chdir(folder)
        printed = run_example(name, code)
        expected = [match["text"] for match in _PRINTED.finditer(code)]
        if expected:
            assert_output("\n".join(expected), printed)


def test_every_module_with_a_page_is_tried(tool: Any) -> None:
    assert {name for *_, names in tool.PAGES.values() for name in names} == set(_MODULES)


def test_examples_that_need_a_package_exist(tool: Any) -> None:
    found = {name for module in _MODULES for name in examples(tool, module)}
    assert set(NEEDED_PACKAGE) <= found
