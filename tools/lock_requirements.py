"""Pin the packages of a development environment, with hashes, in `tools/locked-requirements.txt`.

    python tools/lock_requirements.py            pin the newest versions (needs uv and PyPI)
    python tools/lock_requirements.py --check    compare the pins with pyproject.toml (no network)

The file holds for all supported Pythons and systems. Install from it with

    pip install --require-hashes -r tools/locked-requirements.txt
    pip install --no-deps --no-build-isolation -e .
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from _checkout import ROOT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LOCK: Final = ROOT / "tools" / "locked-requirements.txt"
TOOLS: Final = ROOT / "tools" / "development-tools.in"
EXTRAS: Final = ("image", "lmdb", "parquet", "test", "type", "docs")
_OLDEST_PYTHON: Final = "3.11"
_PIN: Final = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)")
_HASH: Final = re.compile(r"^    --hash=sha256:[0-9a-f]{64}(?: \\)?$")


@dataclass
class Pin:
    """One pinned version, which may hold for some Pythons or systems only.

    Attributes:
        name: the normalized name of the distribution.
        version: its version.
        hashes: how many files of it are accepted.
    """

    name: str
    version: str
    hashes: int = 0


@dataclass
class Project:
    """The requirements in pyproject.toml.

    Attributes:
        name: the name of the project.
        dependencies: the requirements without extras.
        extras: the requirements of each extra.
    """

    name: str
    dependencies: list[str]
    extras: dict[str, list[str]] = field(default_factory=dict)

    def requirements(self, extras: Iterable[str]) -> Iterator[Requirement]:
        """Yield the requirements with some extras; extras of extras are followed."""
        yield from map(Requirement, self.dependencies)
        todo, done = list(extras), set()
        while todo:
            extra = todo.pop()
            done.add(extra)
            for requirement in map(Requirement, self.extras[extra]):
                if canonicalize_name(requirement.name) == self.name:
                    todo += requirement.extras - done
                else:
                    yield requirement


def read_project(text: str) -> Project:
    """Return the requirements of a pyproject.toml."""
    project = tomllib.loads(text)["project"]
    extras = project.get("optional-dependencies", {})
    return Project(canonicalize_name(project["name"]), project["dependencies"], extras)


def read_pins(text: str) -> list[Pin]:
    """Return the pins of a requirements file.

    Raises:
        ValueError: a line is neither a pin, nor a hash, nor a comment.
    """
    pins: list[Pin] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.lstrip().startswith("#"):
            continue
        if pins and _HASH.match(line):
            pins[-1].hashes += 1
        elif found := _PIN.match(line):
            pins.append(Pin(canonicalize_name(found["name"]), found["version"]))
        else:
            raise ValueError(f"line {number} is no pinned version: {line!r}")
    return pins


def faults(requirements: Iterable[Requirement], pins: Iterable[Pin]) -> Iterator[str]:
    """Yield where pins and requirements disagree, and pins without hashes."""
    versions: dict[str, list[str]] = {}
    for pin in pins:
        versions.setdefault(pin.name, []).append(pin.version)
        if not pin.hashes:
            yield f"{pin.name}=={pin.version} has no hash"
    for requirement in requirements:
        pinned = versions.get(canonicalize_name(requirement.name))
        if pinned is None:
            yield f"{requirement.name} is required, but not pinned"
        for version in pinned or ():
            if not requirement.specifier.contains(version, prereleases=True):
                yield f"{requirement.name}=={version} is pinned, but {requirement} is required"


def lock() -> None:
    """Write the file with the newest versions."""
    command = ["uv", "pip", "compile", "--universal", "--python-version", _OLDEST_PYTHON]
    command += ["--generate-hashes", "--no-annotate", "--no-header", "--quiet", "--upgrade"]
    command += [argument for extra in EXTRAS for argument in ("--extra", extra)]
    command += ["--output-file", str(LOCK), "pyproject.toml", str(TOOLS.relative_to(ROOT))]
    subprocess.run(command, check=True, cwd=ROOT)


def check() -> list[str]:
    """Return where the file disagrees with the requirements."""
    project = read_project((ROOT / "pyproject.toml").read_text("utf-8"))
    lines = TOOLS.read_text("utf-8").splitlines()
    tools = [Requirement(line) for line in lines if line and not line.startswith("#")]
    pins = read_pins(LOCK.read_text("utf-8"))
    return list(faults([*project.requirements(EXTRAS), *tools], pins))


def main() -> int:
    """Write or check the file; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only compare, without a network")
    if not parser.parse_args().check:
        lock()
    found = check()
    for fault in found:
        print(fault)
    if found:
        print("run: python tools/lock_requirements.py")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
