"""Find the Python interpreters of this machine, one for each minor version.

The candidates are in the folders of PATH, in pyenv's versions, and the running interpreter. A name
is not reliable: pyenv has shims for versions that are not selected, and Debian's interpreters may
lack pip. So each candidate is run before it is used.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MINORS = (11, 12, 13, 14)
"""The minor versions of Python 3 that graphmill supports."""

_PROBE = """
import importlib.util as find, json, sys, sysconfig
print(json.dumps({
    "executable": sys.executable,
    "version": sys.version_info[:3],
    "is_final": sys.version_info.releaselevel == "final",
    "is_usual": sys.implementation.name == "cpython"
    and not sysconfig.get_config_var("Py_GIL_DISABLED"),
    "makes_venv": all(find.find_spec(name) for name in ("venv", "ensurepip")),
    "has_pip": find.find_spec("pip") is not None,
}))
"""
_PROBE_SECONDS = 60


@dataclass(frozen=True)
class Python:
    """An interpreter that runs and can create a virtual environment."""

    executable: Path
    version: tuple[int, int, int]
    makes_venv: bool = True
    """Whether it has `venv` with `ensurepip`; otherwise pip installs virtualenv."""

    @property
    def minor(self) -> int:
        """The second part of the version."""
        return self.version[1]

    def __str__(self) -> str:
        return ".".join(map(str, self.version))


def find_pythons(
    environment: Mapping[str, str] = os.environ, minors: Iterable[int] = MINORS
) -> list[Python]:
    """Return the first usable interpreter of each minor version, the lowest first."""
    remaining, by_minor = set(minors), {}
    for candidate in _candidates(environment, sorted(remaining)):
        named = re.fullmatch(r"python3\.(\d+)", candidate.name)
        if named and int(named[1]) in by_minor:
            continue
        python = probe(candidate, environment)
        if python is not None and python.version[0] == 3 and python.minor in remaining:
            by_minor.setdefault(python.minor, python)
    return [by_minor[minor] for minor in sorted(by_minor)]


def _candidates(environment: Mapping[str, str], minors: list[int]) -> Iterator[Path]:
    """Yield paths of possible interpreters: on PATH, of pyenv, and the running one."""
    folders = [Path(name) for name in environment.get("PATH", "").split(os.pathsep) if name]
    folders += _pyenv_folders(environment)
    for minor in minors:
        yield from (folder / f"python3.{minor}" for folder in folders)
    yield from (folder / "python3" for folder in folders)
    yield Path(sys.executable)


def _pyenv_folders(environment: Mapping[str, str]) -> list[Path]:
    """Return the folders of pyenv's interpreters, the newest first; none without pyenv."""
    root = environment.get("PYENV_ROOT")
    pyenv = shutil.which("pyenv", path=environment.get("PATH", ""))
    if root is None and pyenv is not None:
        done = subprocess.run(
            [pyenv, "root"], env=dict(environment), capture_output=True, text=True, check=False
        )
        root = done.stdout.strip() or None
    if root is None and "HOME" in environment:
        root = str(Path(environment["HOME"]) / ".pyenv")
    if root is None:
        return []
    return sorted(Path(root).glob("versions/*/bin"), key=_numbers, reverse=True)


def _numbers(folder: Path) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", folder.parent.name)]


def probe(candidate: Path, environment: Mapping[str, str] = os.environ) -> Python | None:
    """Run a candidate; return its description, or None if it does not run or cannot be used.

    It can be used if it is a released CPython with a GIL that has `ensurepip` or pip.
    """
    if not (candidate.is_file() and os.access(candidate, os.X_OK)):
        return None
    try:
        done = subprocess.run(
            [str(candidate), "-I", "-c", _PROBE], env=dict(environment), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, check=False, timeout=_PROBE_SECONDS,
        )  # fmt: skip
        facts = json.loads(done.stdout) if done.returncode == 0 else None
    except (OSError, subprocess.TimeoutExpired, json.JSONDecodeError):
        return None
    if facts is None or not (facts["is_final"] and facts["is_usual"]):
        return None
    if not (facts["makes_venv"] or facts["has_pip"]):
        return None
    major, minor, patch = facts["version"]
    return Python(Path(facts["executable"]), (major, minor, patch), facts["makes_venv"])
