"""Write a new distribution from the templates."""

from __future__ import annotations

import re
from importlib import resources
from typing import TYPE_CHECKING, Final

from graphmill.errors import AlreadyExistsError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable
    from pathlib import Path

KINDS: Final = (
    *("command", "device", "executor", "gradient", "kernel", "observer", "op", "pass"),
    "transport",
)
"""The kinds of plugins that have templates."""
_PLACES: Final = {"workflow.yml": ".github/workflows/test.yml", "gitignore": ".gitignore"}
_USAGE: Final = "usage.md"
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def write_plugin(kind: str, name: str, folder: Path) -> list[Path]:
    """Write a distribution into `folder`/graphmill-NAME; return its files.

    Args:
        kind: one of `KINDS`.
        name: the plugin's name, such as "npu" or "fast-sort".
        folder: the folder in which the distribution's folder is created.

    Raises:
        InvalidArgumentError: there is no such kind, or the name is not valid.
        AlreadyExistsError: the distribution's folder already exists.
    """
    if kind not in KINDS:
        raise InvalidArgumentError(
            f"there is no plugin kind {kind!r}; the kinds are {', '.join(KINDS)}"
        )
    if not _NAME.fullmatch(name):
        raise InvalidArgumentError(
            f"{name!r} is not a valid plugin name: use lower-case letters, digits and single dashes"
        )
    target = folder / f"graphmill-{name}"
    if target.exists():
        raise AlreadyExistsError(f"{target} already exists; choose another name or --folder")
    written = []
    for path, template in _files(kind, name):
        file = target / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_filled(template.read_text("utf-8"), kind, name), encoding="utf-8")
        written.append(file)
    return written


def _files(kind: str, name: str) -> Iterator[tuple[str, Traversable]]:
    """Yield each file's path in the distribution and its template."""
    package = f"graphmill_{name.replace('-', '_')}"
    root = resources.files("graphmill.templates")
    for source in root.joinpath("common").iterdir():
        file = source.name.removesuffix(".txt")
        yield _PLACES.get(file, file), source
    for source in root.joinpath(kind).iterdir():
        file = source.name.removesuffix(".txt")
        if file == _USAGE:
            continue
        if file.startswith("test_"):
            yield f"tests/{file}", source
        else:
            yield f"{package}/{'__init__.py' if file == 'plugin.py' else file}", source


def _usage(kind: str, name: str) -> str:
    """Return the part of the README that shows how the plugin is used; "" if there is none."""
    template = resources.files("graphmill.templates").joinpath(kind, f"{_USAGE}.txt")
    if not template.is_file():
        return ""
    usage = _filled(template.read_text("utf-8"), kind, name)
    return f"\n## Use it\n\nOnce it is installed:\n\n{usage}"


def _filled(text: str, kind: str, name: str) -> str:
    words = name.split("-")
    values = {
        "name": name,
        "module": name.replace("-", "_"),
        "Name": "".join(word.capitalize() for word in words),
        "NAME": "_".join(words).upper(),
        "kind": kind,
    }
    if "@usage@" in text:
        values["usage"] = _usage(kind, name)
    return re.sub(r"@(\w+)@", lambda match: values[match[1]], text)
