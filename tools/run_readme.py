"""Run a command of the README as a new user would: fresh copy, empty HOME, clean environment.

    python tools/run_readme.py run      set up and classify a digit; check the answer
    python tools/run_readme.py test     set up and run the tests

The commands stand in README.md as the code block that follows a comment `<!-- command: NAME -->`,
or `<!-- command: NAME; prints: PATTERN -->` where a line of the output must match a regular
expression. Only Python and its standard library are needed. Of the environment only the path, the
locale and what pip needs to reach a package index come through.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_COMMAND = re.compile(
    r"<!-- command: (?P<name>\w+)(?:; prints: (?P<pattern>.+?))? -->\s*```\w*\n(?P<line>.+)\n```"
)
_KEPT = re.compile(
    r"PATH|LANG|LC_\w+|TMPDIR|PIP_\w+|\w+_CA_BUNDLE|SSL_CERT_\w+|\w+_proxy|\w+_PROXY|PYENV_\w+"
)


@dataclass(frozen=True)
class Command:
    """A command of the README: a line for the shell, and what its output must hold."""

    name: str
    line: str
    pattern: str | None


def commands_of(text: str) -> dict[str, Command]:
    """Return the commands that are marked in a Markdown text, by name."""
    found = {}
    for match in _COMMAND.finditer(text):
        found[match["name"]] = Command(match["name"], match["line"].strip(), match["pattern"])
    return found


def copy_tree(target: Path) -> None:
    """Copy what git tracks or would track into `target`; without git, all but hidden folders."""
    git = shutil.which("git")
    listing = [git or "false", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=ROOT, capture_output=True, check=False)
    if listed.returncode != 0:
        ignored = shutil.ignore_patterns(".git", ".venv", ".tox", "__pycache__", ".*_cache")
        shutil.copytree(ROOT, target, ignore=ignored)
        return
    for name in filter(None, listed.stdout.decode().split("\0")):
        source = ROOT / name
        if source.is_file():  # not so for a file that is deleted in the work tree
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)


def clean_environment(home: Path) -> dict[str, str]:
    """Return the environment of a new user: an empty HOME, and pip's way to its index."""
    kept = {name: value for name, value in os.environ.items() if _KEPT.fullmatch(name)}
    cache = Path(os.environ.get("PIP_CACHE_DIR") or _default_cache())
    return {**kept, "HOME": str(home), "PIP_CACHE_DIR": str(cache), "COLUMNS": "100"}


def _default_cache() -> Path:
    """Return a folder for downloads that the runs of one user share; it holds nothing installed."""
    return Path(tempfile.gettempdir()) / f"graphmill-pip-cache-{os.getuid()}"


def with_venv(environment: dict[str, str], scratch: Path) -> dict[str, str]:
    """Return an environment in which `python3 -m venv` works.

    Debian leaves `ensurepip` out of Python. Then virtualenv takes its place, by a `python3` in
    front of the path which hands `-m venv` over to it.
    """
    probe = subprocess.run(
        ["python3", "-c", "import venv, ensurepip"],
        env=environment,
        capture_output=True,
        check=False,
    )
    if probe.returncode == 0:
        return environment
    python = shutil.which("python3", path=environment["PATH"])
    site, shim = scratch / "virtualenv", scratch / "bin" / "python3"
    subprocess.run(
        [str(python), "-m", "pip", "install", "--quiet", "--target", str(site), "virtualenv"],
        env=environment, check=True,
    )  # fmt: skip
    shim.parent.mkdir()
    shim.write_text(
        "#!/bin/sh\n"
        'if [ "$1 $2" = "-m venv" ]; then shift 2; '
        f'PYTHONPATH="{site}" exec "{python}" -m virtualenv --quiet "$@"; fi\n'
        f'exec "{python}" "$@"\n'
    )
    shim.chmod(0o755)
    return {**environment, "PATH": f"{shim.parent}{os.pathsep}{environment['PATH']}"}


def run(command: Command) -> int:
    """Run one command in a fresh copy of the work tree; return the exit status."""
    with tempfile.TemporaryDirectory(prefix="graphmill-readme-") as name:
        scratch = Path(name)
        (scratch / "home").mkdir()
        copy_tree(scratch / "graphmill")
        environment = with_venv(clean_environment(scratch / "home"), scratch)
        print(f"$ {command.line}", flush=True)
        begun = time.monotonic()
        output: list[str] = []
        with subprocess.Popen(
            ["/bin/sh", "-c", command.line], cwd=scratch / "graphmill", env=environment,
            stdout=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            for line in process.stdout or ():
                print(line, end="", flush=True)
                output.append(line.rstrip("\n"))
        seconds = time.monotonic() - begun
    if process.returncode == 0 and command.pattern is not None:
        if not any(re.search(command.pattern, line) for line in output):
            print(f"no line of the output matches {command.pattern!r}", file=sys.stderr)
            return 1
        print(f"(the answer is right; {seconds:.0f} s with set-up)")
    return process.returncode


def main() -> int:
    """Run the command that is named on the command line."""
    commands = commands_of((ROOT / "README.md").read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(description="Run a command of the README in a fresh copy.")
    parser.add_argument("name", choices=sorted(commands))
    return run(commands[parser.parse_args().name])


if __name__ == "__main__":
    sys.exit(main())
