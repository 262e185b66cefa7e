"""Build both distributions twice, from different folders, and check that they are equal.

    python tools/check_wheel.py             print the digests; exit with 1 if they differ
    python tools/check_wheel.py --out DIR   keep the first ones

The copies differ in their path, the times and permissions of their files, the time zone and the
hash seed. `SOURCE_DATE_EPOCH` is the time of the last commit, unless it is set. Needs hatchling.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import make_lite
from _checkout import ROOT

_LEFT_OUT = shutil.ignore_patterns(".git", ".tox", ".venv", "__pycache__", ".*_cache", "site")


def source_date() -> str:
    """Return the modification time of files in archives, in seconds since 1970."""
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    from_environment = os.environ.get("SOURCE_DATE_EPOCH")
    return (
        from_environment
        or subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    )


def build(source: Path, out: Path, date: str, seed: str, zone: str) -> dict[str, str]:
    """Build the wheels and source distributions of a copy; return their digests by name.

    This turns the copy into the source of graphmill-lite.
    """
    _build(source, out, date, seed, zone)
    make_lite.convert(source)
    _build(source, out, date, seed, zone)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in out.iterdir()}


def _build(source: Path, out: Path, date: str, seed: str, zone: str) -> None:
    variables = {"SOURCE_DATE_EPOCH": date, "PYTHONHASHSEED": seed, "TZ": zone}
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out)]
    subprocess.run(
        command, check=True, cwd=source, env={**os.environ, **variables}, stdout=subprocess.DEVNULL
    )


def disturb(folder: Path) -> None:
    """Change the times and permissions of all files."""
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (1_000_000_000, 1_000_000_000))
            path.chmod(path.stat().st_mode & 0o755 | 0o040)


def differences(first: dict[str, str], second: dict[str, str]) -> list[str]:
    """Return the names of the distributions that are not the same in both."""
    return sorted(
        name for name in first.keys() | second.keys() if first.get(name) != second.get(name)
    )


def main() -> int:
    """Build twice and compare."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, help="the folder for the distributions")
    options = parser.parse_args()
    date = source_date()
    with tempfile.TemporaryDirectory() as folder:
        copies = [Path(folder) / "a", Path(folder) / "longer" / "path" / "b"]
        for copy in copies:
            shutil.copytree(ROOT, copy, ignore=_LEFT_OUT)
        disturb(copies[1])
        first = build(copies[0], Path(folder) / "first", date, "1", "UTC")
        second = build(copies[1], Path(folder) / "second", date, "2", "Asia/Tokyo")
        for name, digest in sorted(first.items()):
            print(f"{digest}  {name}")
        if options.out:
            shutil.copytree(Path(folder) / "first", options.out, dirs_exist_ok=True)
    differing = differences(first, second)
    for name in differing:
        print(f"{name}: the two builds differ", file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
