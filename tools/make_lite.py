"""Make the source tree of `graphmill-lite`: the same files, without JAX among the dependencies.

    python tools/make_lite.py FOLDER     then, for example: pip install 'FOLDER[image]'

The tree differs from this one in pyproject.toml and in the first lines of README.md. Only the
standard library is needed. docs/decisions/0027-two-distributions.md says why there are two.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from run_readme import copy_tree

NAME = "graphmill-lite"
SUMMARY = "Run TensorFlow graphs without TensorFlow and without a compiler: graphmill without JAX."
_NOTE = """\
> This is **graphmill-lite**: graphmill without JAX, for small images. Models run node by node on
> NumPy, with the same results; nothing is compiled, and there are no GPUs. Do not install it beside
> `graphmill`: both have the same files.
"""


def lite_project(text: str) -> str:
    """Return the pyproject.toml of graphmill-lite, from the one of graphmill.

    Raises:
        ValueError: a line that has to be changed is not there, or not once.
    """
    text = _replaced(text, r'^name = "graphmill"$', f'name = "{NAME}"')
    text = _replaced(text, r"^description = .*$", f'description = "{SUMMARY}"')
    text = _replaced(text, r'^    "jax[>=.0-9]*",\n', "")
    return text.replace('"graphmill[', f'"{NAME}[')


def lite_readme(text: str) -> str:
    """Return the README of graphmill-lite: the README with a note about the package.

    Raises:
        ValueError: the text has no title.
    """
    return _replaced(text, r"\A(# .*\n)", rf"\1\n{_NOTE}")


def _replaced(text: str, pattern: str, replacement: str) -> str:
    text, count = re.subn(pattern, replacement, text, flags=re.MULTILINE)
    if count != 1:
        raise ValueError(f"{pattern!r} matches {count} lines; expected one")
    return text


def convert(folder: Path) -> None:
    """Change a copy of graphmill's source tree into that of graphmill-lite.

    Raises:
        ValueError: it is not such a tree.
    """
    for name, change in (("pyproject.toml", lite_project), ("README.md", lite_readme)):
        file = folder / name
        file.write_text(change(file.read_text("utf-8")), "utf-8")


def main() -> None:
    """Copy the tree and change it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="the folder to make")
    folder: Path = parser.parse_args().folder
    if folder.exists():
        parser.error(f"{folder} exists; name a new folder")
    copy_tree(folder)
    convert(folder)
    print(f"made {folder}")


if __name__ == "__main__":
    main()
