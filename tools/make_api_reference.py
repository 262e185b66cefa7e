"""Write docs/reference/python/ from the docstrings of graphmill's public names.

python tools/make_api_reference.py            write the pages
python tools/make_api_reference.py --check    fail if they differ from what would be written

Plugins have a page of their own (tools/make_spi_reference.py), functions that add single ops too
(docs/reference/ops.md).
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from typing import TYPE_CHECKING, Any, Final

from _checkout import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDER = ROOT / "docs" / "reference" / "python"
PAGES: Final = {
    "graphmill": ("Sessions and graphs", "build graphs and run them", ("graphmill",)),
    "models": (
        "Models, batches and exports",
        "load, save, convert and apply models",
        ("graphmill.saved_model", "graphmill.batch", "graphmill.export", "graphmill.tf_record"),
    ),
    "train": (
        "Training and data",
        "train models and feed them",
        ("graphmill.train", "graphmill.losses", "graphmill.initializers", "graphmill.data"),
    ),
    "functions": (
        "Functions",
        "build graphs with TensorFlow's function names",
        ("graphmill.functions",),
    ),
    "inspect": (
        "Reports, comparisons and summaries",
        "inspect what ran, and how fast",
        (
            *("graphmill.report", "graphmill.comparison", "graphmill.debug", "graphmill.summary"),
            *("graphmill.explain", "graphmill.timeline"),
        ),
    ),
}
"""The pages by the names of their files: title, what the reader does with it, and the modules."""
HEAD = """\
# {title}

<!-- Written by tools/make_api_reference.py from docstrings; edit those. -->

This page is for people who write Python programs that {purpose}. It lets you look up each name,
its arguments, and the errors that it raises.

Examples use `F` for `graphmill.functions`, `np` for NumPy, `Dataset` and `TensorSpec` from
`graphmill.data`, and `session` for a session of the default graph.
"""
_SECTION = re.compile(r"^(Args|Returns|Raises|Attributes|Yields|Threads):[ ]?(.*)$")
_ENTRY = re.compile(r"^(\*{0,2}[\w.]+(?:, \*{0,2}[\w.]+)*): (.*)$")
_CODE = re.compile(r"(?<=\n)\n(?:    .*(?:\n|\Z)|\n(?=    ))+")
"""Indented lines after an empty line."""


def public_names(module: Any) -> list[str]:
    """Return the public names of a module, without modules: `__all__`, or what it defines."""
    names = getattr(module, "__all__", None)
    if names is None:
        own = (name for name in vars(module) if not name.startswith("_"))
        names = [name for name in own if _home(getattr(module, name)) == module.__name__]
    return sorted(name for name in names if _is_documented(getattr(module, name)))


def _home(value: Any) -> str:
    return str(getattr(value, "__module__", ""))


def _is_documented(value: Any) -> bool:
    is_ours = _home(value).startswith("graphmill") and not _home(value).endswith("_pb2")
    return is_ours and (inspect.isclass(value) or inspect.isroutine(value))


def signature(name: str, value: Any) -> str:
    """Return a call with the parameters of a function or class; only the name if it has none."""
    try:
        parameters = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    plain = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in parameters.parameters.values()
        if parameter.name != "self"
    ]
    shown = parameters.replace(parameters=plain, return_annotation=inspect.Signature.empty)
    text = re.sub(r" at 0x[0-9a-f]+", "", f"{name}{shown}")
    return re.sub(r"<(?:class|function) '?([\w.]+)'?>", r"\1", text)


def markdown(docstring: str) -> str:
    """Return a docstring as Markdown: sections become lists, indented code is fenced."""
    lines, inside = [], False
    for line in docstring.splitlines():
        section = _SECTION.match(line)
        entry = _ENTRY.match(line.strip()) if inside and _indent(line) == 4 else None
        if section:
            inside = True
            lines += ["", f"*{section[1]}:* {section[2]}".rstrip(), ""]
        elif entry:
            lines.append(f"- `{entry[1]}`: {entry[2]}")
        elif inside and _indent(line) >= 4:
            is_text = _indent(line) == 4 and not (lines and lines[-1].startswith("- "))
            lines.append(line.strip() if is_text else f"  {line.strip()}")
        else:
            inside = inside and not line
            lines.append(line)
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    return _CODE.sub(_fenced, text)


def _fenced(match: re.Match[str]) -> str:
    lines = [line.removeprefix("    ") for line in match[0].strip("\n").splitlines()]
    return "\n```py\n" + "\n".join(lines) + "\n```\n"


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def entries(module: Any, name: str) -> Iterator[str]:
    """Yield the parts of a page about one name: it, and the methods of a class."""
    value = getattr(module, name)
    yield f"### `{name}`\n\n```py\n{signature(name, value)}\n```\n\n{_text(value)}\n"
    if not inspect.isclass(value):
        return
    for method, member in sorted(_members(value).items()):
        plain = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        if method.startswith("_") or not (inspect.isfunction(plain) or isinstance(plain, property)):
            continue
        call = f"{name}.{method}"
        if inspect.isfunction(plain):
            call = signature(call, getattr(value, method) if plain is not member else plain)
        text = _text(plain)
        if text:
            yield f"#### `{name}.{method}`\n\n```py\n{call}\n```\n\n{text}\n"


def _members(value: type) -> dict[str, Any]:
    """Return the members of a class, with those of mixins among several bases."""
    bases = value.__bases__ if len(value.__bases__) > 1 else ()
    mixins = [base for base in bases if base.__bases__ == (object,)]
    ours = [base for base in mixins if _home(base).startswith("graphmill")]
    found: dict[str, Any] = {}
    for base in [*reversed(ours), value]:
        found |= vars(base)
    return found


def _text(value: Any) -> str:
    """Return the docstring of an object itself, not an inherited one."""
    own = value.__doc__ if not inspect.isclass(value) else vars(value).get("__doc__")
    text = inspect.cleandoc(own or "")
    is_generated = inspect.isclass(value) and text.startswith(f"{value.__name__}(")
    return "" if is_generated else markdown(text)


def page(key: str) -> str:
    """Return a page."""
    title, purpose, names = PAGES[key]
    parts = [HEAD.format(title=title, purpose=purpose)]
    for module_name in names:
        module = importlib.import_module(module_name)
        parts.append(f"## `{module_name}`\n\n{markdown(inspect.getdoc(module) or '')}\n")
        for name in public_names(module):
            parts += entries(module, name)
    return "\n".join(parts).rstrip() + "\n"


def outdated() -> list[Path]:
    """Return the pages that are out of date."""
    pages = {FOLDER / f"{key}.md": key for key in PAGES}
    return [p for p, key in pages.items() if not p.exists() or p.read_text("utf-8") != page(key)]


def main(arguments: list[str]) -> int:
    """Write or check the pages; return the exit status."""
    if "--check" in arguments:
        for path in outdated():
            print(f"{path} is out of date; run python tools/make_api_reference.py")
        return int(bool(outdated()))
    FOLDER.mkdir(exist_ok=True)
    for key in PAGES:
        (FOLDER / f"{key}.md").write_text(page(key), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
