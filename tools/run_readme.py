"""Run a command of the README as a new user would: fresh copy, empty HOME, clean environment.

    python tools/run_readme.py run      set up and classify a digit; check the result
    python tools/run_readme.py test     set up and run the tests

A command is the code block in README.md after a comment `<!-- command: NAME -->`, or
`<!-- command: NAME; prints: PATTERN -->` if a line of the output must match a regular expression.
Only Python and its standard library are needed. The command gets only these parts of the
environment: the path, the locale, and the variables that pip needs to reach a package index.

With `--compiled FOLDER`, JAX caches compiled programs in that folder, so that the processes of a
run, and runs with the same JAX, compile no program twice. With `--share 1/4`, the tests run that
share of the tests that are divided among runs (tests/shares.py).
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

from pythons import Python, probe

ROOT = Path(__file__).resolve().parent.parent
_COMMAND = re.compile(
    r"<!-- command: (?P<name>\w+)(?:; prints: (?P<pattern>.+?))? -->\s*```\w*\n(?P<line>.+)\n```"
)
_KEPT = re.compile(
    r"PATH|LANG|LC_\w+|TMPDIR|PIP_\w+|\w+_CA_BUNDLE|SSL_CERT_\w+|\w+_proxy|\w+_PROXY|PYENV_\w+"
)
_LONG_SILENCE = 30.0  # seconds


@dataclass(frozen=True)
class Command:
    """A command of the README: a line for the shell, and a pattern that its output must match."""

    name: str
    line: str
    pattern: str | None


def commands_of(text: str) -> dict[str, Command]:
    """Return the commands that are marked in a Markdown text, by name."""
    commands = {}
    for match in _COMMAND.finditer(text):
        commands[match["name"]] = Command(match["name"], match["line"].strip(), match["pattern"])
    return commands


def copy_tree(target: Path) -> None:
    """Copy the files that git does not ignore to `target`; without git, all but generated ones."""
    git = shutil.which("git")
    listing = [git or "false", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(listing, cwd=ROOT, capture_output=True, check=False)
    if listed.returncode != 0:
        ignored = shutil.ignore_patterns(".git", ".venv", ".tox", "__pycache__", ".*_cache")
        shutil.copytree(ROOT, target, ignore=ignored)
        return
    for name in filter(None, listed.stdout.decode().split("\0")):
        source = ROOT / name
        if source.is_file():  # false for a file that is deleted in the work tree
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)


def clean_environment(home: Path) -> dict[str, str]:
    """Return the environment of a new user: an empty HOME, and pip's settings for its index."""
    variables = {name: value for name, value in os.environ.items() if _KEPT.fullmatch(name)}
    cache = Path(os.environ.get("PIP_CACHE_DIR") or _default_cache())
    return {**variables, "HOME": str(home), "PIP_CACHE_DIR": str(cache), "COLUMNS": "100"}


def with_share(environment: dict[str, str], share: str) -> dict[str, str]:
    """Return an environment in which the tests run a share of the divided tests."""
    return {**environment, "GRAPHMILL_TEST_SHARE": share}


def with_compiled(environment: dict[str, str], folder: Path) -> dict[str, str]:
    """Return an environment in which JAX caches every compiled program in a folder."""
    return {
        **environment,
        "JAX_COMPILATION_CACHE_DIR": str(folder.resolve()),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def _default_cache() -> Path:
    """Return the folder of pip's downloads, which all runs of a user share."""
    return Path(tempfile.gettempdir()) / f"graphmill-pip-cache-{os.getuid()}"


def with_python(environment: dict[str, str], scratch: Path, python: Python) -> dict[str, str]:
    """Return an environment in which `python3 -m venv` works with a given interpreter.

    A `python3` script at the front of the path starts that interpreter. If the interpreter lacks
    `ensurepip`, as on Debian, the script runs virtualenv for `-m venv`.
    """
    shim = scratch / "bin" / "python3"
    shim.parent.mkdir()
    lines = ["#!/bin/sh"]
    if not python.makes_venv:
        site = _install_virtualenv(environment, scratch, python)
        lines.append(
            'if [ "$1 $2" = "-m venv" ]; then shift 2; '
            f'PYTHONPATH="{site}" exec "{python.executable}" -m virtualenv --quiet "$@"; fi'
        )
    lines.append(f'exec "{python.executable}" "$@"')
    shim.write_text("\n".join(lines) + "\n")
    shim.chmod(0o755)
    return {**environment, "PATH": f"{shim.parent}{os.pathsep}{environment['PATH']}"}


def _install_virtualenv(environment: dict[str, str], scratch: Path, python: Python) -> Path:
    site = scratch / "virtualenv"
    subprocess.run(
        [python.executable, "-m", "pip", "install", "--quiet", "--target", site, "virtualenv"],
        env=environment, check=True,
    )  # fmt: skip
    return site


def run(
    command: Command,
    python: Python | None = None,
    constraints: Path | None = None,
    compiled: Path | None = None,
    share: str | None = None,
) -> int:
    """Run one command in a fresh copy of the work tree; return the exit status.

    Args:
        command: the command of the README.
        python: the interpreter of `python3`; by default the running one.
        constraints: a constraints file for pip.
        compiled: the folder of JAX's compiled programs; by default there is none.
        share: the share of the divided tests to run; by default all.

    Raises:
        RuntimeError: the interpreter does not run, or has neither `ensurepip` nor pip.
    """
    python = python or probe(Path(sys.executable))
    if python is None:
        raise RuntimeError(f"{sys.executable} has neither ensurepip nor pip; install one of them")
    with tempfile.TemporaryDirectory(prefix="graphmill-readme-") as name:
        scratch = Path(name)
        (scratch / "home").mkdir()
        copy_tree(scratch / "graphmill")
        environment = with_python(clean_environment(scratch / "home"), scratch, python)
        if constraints is not None:
            environment["PIP_CONSTRAINT"] = str(constraints.resolve())
        if compiled is not None:
            environment = with_compiled(environment, compiled)
        if share is not None:
            environment = with_share(environment, share)
        begun = time.monotonic()
        code, output = _echo(command.line, scratch / "graphmill", environment)
        seconds = time.monotonic() - begun
        print(f"(Python {python} with {_installed(scratch / 'graphmill') or 'nothing installed'})")
    if code == 0 and command.pattern is not None:
        if not any(re.search(command.pattern, line) for line in output):
            print(f"no line of the output matches {command.pattern!r}", file=sys.stderr)
            return 1
        print(f"(the result is correct; {seconds:.0f} s with set-up)")
    return code


def _echo(line: str, folder: Path, environment: dict[str, str]) -> tuple[int, list[str]]:
    """Run a line in a shell and print its output; return the exit status and the output.

    It also prints how long the command was silent, where that was long: it tells a slow download
    from a slow test.
    """
    print(f"$ {line}", flush=True)
    output: list[str] = []
    last = time.monotonic()
    with subprocess.Popen(
        ["/bin/sh", "-c", line], cwd=folder, env=environment,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        for printed in process.stdout or ():
            last, silence = time.monotonic(), time.monotonic() - last
            if silence > _LONG_SILENCE:
                print(f"(no output for {silence:.0f} s)")
            print(printed, end="", flush=True)
            output.append(printed.rstrip("\n"))
    return process.returncode, output


def _installed(folder: Path) -> str:
    """Return names and versions of the distributions in the environment that a command created."""
    folders = folder.glob(".venv/lib*/python*/site-packages/*.dist-info")
    return ", ".join(sorted({path.stem.replace("-", " ", 1) for path in folders}, key=str.lower))


def main() -> int:
    """Run the command of the README that the command line names."""
    commands = commands_of((ROOT / "README.md").read_text(encoding="utf-8"))
    parser = argparse.ArgumentParser(description="Run a command of the README in a fresh copy.")
    parser.add_argument("name", choices=sorted(commands))
    parser.add_argument(
        "--python", type=Path, help="the interpreter of `python3` (default: this one)"
    )
    parser.add_argument("--constraints", type=Path, help="a constraints file for pip")
    parser.add_argument("--compiled", type=Path, help="folder for JAX's compiled programs")
    parser.add_argument("--share", help="the share of the divided tests, as 1/4 (default: all)")
    options = parser.parse_args()
    python = None if options.python is None else probe(options.python)
    if options.python is not None and python is None:
        parser.error(f"{options.python} is not a Python that can create an environment")
    return run(commands[options.name], python, options.constraints, options.compiled, options.share)


if __name__ == "__main__":
    sys.exit(main())
