"""List the texts that users read: errors, warnings, log lines, reasons, CLI output and help.

python tools/list_messages.py                          list every text, as FILE:LINE: KIND: TEXT
python tools/list_messages.py plugins --kind error     list the errors of the plugins
"""

from __future__ import annotations

import argparse
import ast
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parents[1]
FOLDERS = ("core", "plugins", "contrib_devices", "contrib_executors")
# Folders without texts for users: test cases, tests of plugins, caches.
SKIPPED = {"cases", "tests", "__pycache__"}
LOG_METHODS = {"debug", "info", "warning", "error", "exception", "critical", "log"}
OUTPUT_FUNCTIONS = {"print", "echo", "write"}
HELP_KEYWORDS = {"help", "description", "epilog"}
REASON_KEYWORDS = {"reason", "message", "hint", "advice", "detail", "details"}
KINDS = ("error", "warning", "log", "help", "output", "reason", "text")


class Message(NamedTuple):
    """A text for users and where it is written."""

    path: Path
    line: int
    kind: str
    text: str


def text_of(node: ast.AST) -> str | None:
    """Return the text of a string expression with `{…}` for values, or None for others."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.FormattedValue):
        return "{" + ast.unparse(node.value) + "}"
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or "" for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = text_of(node.left), text_of(node.right)
        if left is None and right is None:
            return None
        return "".join(
            "{" + ast.unparse(side) + "}" if text is None else text
            for side, text in ((node.left, left), (node.right, right))
        )
    return None


def kind_of_call(call: ast.Call) -> str | None:
    """Return the kind of the texts in the arguments of a call, or None if it is unclear."""
    match call.func:
        case ast.Attribute(value=ast.Name(id="warnings"), attr="warn"):
            return "warning"
        case ast.Attribute(attr="add_argument" | "add_parser" | "ArgumentParser"):
            return "help"
        case ast.Attribute(value=ast.Name(id=name), attr=attr) if (
            attr in LOG_METHODS and "log" in name.lower()
        ):
            return "log"
        case ast.Name(id=name) | ast.Attribute(attr=name):
            if name.endswith(("Error", "Exception")):
                return "error"
            if name.endswith("Refusal"):
                return "reason"
            return "output" if name in OUTPUT_FUNCTIONS else None
    return None


def is_docstring(node: ast.AST) -> bool:
    """Return whether a node is a string statement: a docstring, also of an attribute."""
    return isinstance(node, ast.Expr) and text_of(node.value) is not None


def messages_below(node: ast.AST, kind: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, kind and text of the string expressions below a node of the syntax tree."""
    text = text_of(node)
    if text is not None:
        if len(text.split()) > 2:
            yield getattr(node, "lineno", 1), kind, " ".join(text.split())
        return
    if isinstance(node, ast.Raise):
        kind = "error"
    elif isinstance(node, ast.Call):
        kind = kind_of_call(node) or kind
    for child in ast.iter_child_nodes(node):
        if is_docstring(child):
            continue
        below = kind
        if isinstance(child, ast.keyword):
            if child.arg in HELP_KEYWORDS:
                below = "help"
            elif child.arg in REASON_KEYWORDS and kind == "text":
                below = "reason"
        yield from messages_below(child, below)


def messages_of(path: Path) -> Iterator[Message]:
    """Yield the texts for users of a file, from top to bottom."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for line, kind, text in sorted(messages_below(tree, "text")):
        yield Message(path, line, kind, text)


def sources(below: Iterable[Path]) -> Iterator[Path]:
    """Yield the Python files of folders, except those without texts for users."""
    for folder in below:
        files = [folder] if folder.is_file() else sorted(folder.rglob("*.py"))
        yield from (path for path in files if not SKIPPED & set(path.relative_to(folder).parts))


def main(arguments: list[str] | None = None) -> None:
    """List the texts of the folders on the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("paths", nargs="*", type=Path, help="files or folders (default: all)")
    parser.add_argument("--kind", action="append", choices=KINDS, help="list only this kind")
    options = parser.parse_args(arguments)
    for path in sources(options.paths or [ROOT / folder for folder in FOLDERS]):
        for message in messages_of(path):
            if not options.kind or message.kind in options.kind:
                shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
                print(f"{shown}:{message.line}: {message.kind}: {message.text}")


if __name__ == "__main__":
    main()
