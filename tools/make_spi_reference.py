"""Write docs/reference/spi.md from graphmill.spi and the docstrings of its names.

python tools/make_spi_reference.py            write it
python tools/make_spi_reference.py --check    fail if it differs from what would be written
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from graphmill import spi

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "spi.md"
HEAD = """\
# What plugins may import

<!-- Written by tools/make_spi_reference.py from core/graphmill/spi and docstrings; edit those. -->

This page is for plugin authors. It lets you look up every name that a plugin may rely on.

`graphmill.spi` has its own version, {version} here.
[Compatibility between versions](../explanation/stability.md) explains its version numbers.
Names are imported when they are first used. A plugin may also import `graphmill.errors`,
`graphmill.dtypes`, and the functions of `graphmill.ops`, which build nodes.
The built-in plugins import nothing else; `tests/unit/test_builtin_imports.py` checks this.

"""


def modules() -> list[ModuleType]:
    """Return `graphmill.spi` and its modules, in the order of the page."""
    names = (info.name for info in pkgutil.iter_modules(spi.__path__))
    concepts = sorted(name for name in names if not name.startswith("_"))
    return [spi, *(importlib.import_module(f"graphmill.spi.{name}") for name in concepts)]


@cache
def homes(module: ModuleType) -> dict[str, str]:
    """Return the module that defines each name of a module, as type checkers see it."""
    tree = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))
    imports = [s for s in ast.walk(tree) if isinstance(s, ast.ImportFrom) and s.module]
    return {alias.name: str(s.module) for s in imports for alias in s.names if alias.asname}


@cache
def described(module: str) -> dict[str, str]:
    """Return the first line of the docstring of each name that a module defines."""
    file = importlib.import_module(module).__file__ or ""
    statements = ast.parse(Path(file).read_text(encoding="utf-8")).body
    texts = {}
    for statement, after in zip(statements, [*statements[1:], ast.Pass()], strict=True):
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            texts[statement.name] = ast.get_docstring(statement) or ""
        elif isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            text = inspect.cleandoc(str(after.value.value))
            texts.update(dict.fromkeys(_targets(statement), text))
    return {name: text.partition("\n\n")[0].replace("\n", " ") for name, text in texts.items()}


def _targets(statement: ast.stmt) -> Iterable[str]:
    targets: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        targets = statement.targets
    elif isinstance(statement, ast.AnnAssign):
        targets = [statement.target]
    return (target.id for target in targets if isinstance(target, ast.Name))


def summary(module: ModuleType, name: str) -> str:
    """Return one line about a name.

    Raises:
        ValueError: it has no docstring; for a constant, no string below it.
    """
    home = homes(module)[name]
    if home.endswith("_pb2"):
        return f"TensorFlow's message `{name}`."
    if home == "graphmill":
        return (inspect.getdoc(getattr(module, name)) or "").partition("\n")[0]
    text = described(home).get(name, "")
    if not text:
        raise ValueError(f"{home}.{name} has no docstring, which every name in graphmill.spi needs")
    return text.replace("|", "\\|")


def section(module: ModuleType) -> str:
    """Return the part of the page about one module."""
    rows = "\n".join(f"| `{name}` | {summary(module, name)} |" for name in module.__all__)
    title = "" if module is spi else f"{(module.__doc__ or '').partition(chr(10))[0]}\n\n"
    return f"## `{module.__name__}`\n\n{title}| name | what it is |\n|---|---|\n{rows}\n"


def page() -> str:
    """Return the whole page."""
    head = HEAD.format(version=".".join(map(str, spi.VERSION)))
    return head + "\n".join(map(section, modules()))


def main(arguments: list[str]) -> int:
    """Write or check the page; return the exit status."""
    expected = page()
    if "--check" in arguments:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != expected:
            print(f"{PAGE} is out of date; run python tools/make_spi_reference.py")
            return 1
        return 0
    PAGE.write_text(expected, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
