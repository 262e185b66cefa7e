"""Build and try the files of a release: `graphmill` and `graphmill-lite`, as wheels and sources.

    python tools/release.py --out dist         needs hatchling, twine and a package index
    python tools/release.py --check            compare versions and changelog only

1. The versions in pyproject.toml and in the package are equal, and CHANGELOG.md has a section.
2. Two builds from different folders are equal (tools/check_wheel.py).
3. `twine check --strict` accepts the metadata and the README.
4. Each file is installed in a fresh environment, where a model is run, a new plugin is generated
   and installed, and `graphmill doctor` finds no problem.

docs/howto/release.md says what to do before and afterwards.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from _checkout import ROOT
from pythons import probe
from run_readme import clean_environment, with_python

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pythons import Python

_VERSION = re.compile(r'^__version__ = "(?P<version>[^"]+)"$', re.MULTILINE)


def faults(root: Path = ROOT) -> list[str]:
    """Return where the package or the changelog disagrees with the version in pyproject.toml."""
    version = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    package = (root / "core" / "graphmill" / "__init__.py").read_text("utf-8")
    match = _VERSION.search(package)
    found = []
    if match is None or match["version"] != version:
        found.append(
            f"pyproject.toml has version {version}, graphmill.__version__ is "
            f"{match and match['version']!r}"
        )
    sections = (root / "CHANGELOG.md").read_text("utf-8").splitlines()
    if not any(line.startswith(f"## {version}") for line in sections):
        found.append(f"CHANGELOG.md has no section '## {version}'")
    return found


def commands(distribution: Path, scratch: Path) -> Iterator[str]:
    """Yield the shell commands that try a distribution in the environment `scratch/.venv`."""
    bin_ = scratch / ".venv" / "bin"
    digits = ROOT / "examples" / "digits"
    yield f"python3 -m venv {scratch}/.venv"
    yield f"{bin_}/pip install -q '{distribution}[image]'"
    yield f"{bin_}/pip check"
    yield f"{bin_}/graphmill --version"
    yield f"{bin_}/graphmill run {digits}/saved_model_tf2 image=@{digits}/seven.png --top 3"
    yield f"{bin_}/graphmill new-plugin kernel hello --folder {scratch}"
    yield f"{bin_}/pip install -q --no-deps {scratch}/graphmill-hello"
    yield f"{bin_}/graphmill doctor"


def try_distribution(distribution: Path, python: Python) -> int:
    """Install a distribution in a fresh environment and use it; return the first nonzero code."""
    with tempfile.TemporaryDirectory(prefix="graphmill-release-") as folder:
        scratch = Path(folder)
        environment = with_python(clean_environment(scratch), scratch, python)
        for line in commands(distribution, scratch):
            print(f"$ {line}", flush=True)
            done = subprocess.run(
                ["/bin/sh", "-c", line], cwd=scratch, env=environment, check=False
            )
            if done.returncode:
                print(f"failed with {done.returncode}: {line}", file=sys.stderr)
                return done.returncode
    return 0


def main() -> int:
    """Check, build and try; return 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="the folder to fill")
    parser.add_argument("--check", action="store_true", help="only compare versions and changelog")
    options = parser.parse_args()
    wrong = faults()
    for line in wrong:
        print(line, file=sys.stderr)
    if options.check or wrong:
        return int(bool(wrong))
    out: Path = options.out.resolve()
    if out.exists() and any(out.iterdir()):
        parser.error(f"{out} is not empty; remove it")
    tools = ROOT / "tools"
    subprocess.run([sys.executable, tools / "check_wheel.py", "--out", out], check=True)
    files = sorted(out.iterdir())
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files], check=True)
    python = probe(Path(sys.executable))
    if python is None:
        raise RuntimeError(f"{sys.executable} cannot make an environment")
    failed = [file.name for file in files if try_distribution(file, python)]
    for name in failed:
        print(f"{name}: does not work", file=sys.stderr)
    print(f"{len(files) - len(failed)} of {len(files)} distributions work")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
