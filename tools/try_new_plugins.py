"""Create a plugin of each kind, install it with pip, and run its tests.

python tools/try_new_plugins.py FOLDER        installs each into the environment and removes it
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from graphmill.templates.render import KINDS, write_plugin


def main(folder: Path) -> int:
    """Test all kinds; return the number of failures."""
    failed = []
    for kind in KINDS:
        name = f"try-{kind}"
        write_plugin(kind, name, folder)
        project = folder / f"graphmill-{name}"
        run("-m", "pip", "install", "--quiet", "--no-deps", str(project), check=True)
        try:
            tests = ("-m", "pytest", "-q", "--graphmill-every", "10", "tests")
            if run(*tests, cwd=project) or has_problems(f"graphmill-{name}"):
                failed.append(kind)
        finally:
            run("-m", "pip", "uninstall", "--quiet", "--yes", f"graphmill-{name}", check=True)
    print(f"{len(KINDS) - len(failed)} of {len(KINDS)} kinds work; not: {', '.join(failed) or '-'}")
    return len(failed)


def has_problems(distribution: str) -> bool:
    """Return whether `graphmill doctor` has advice on a distribution, or does not list it."""
    command = [sys.executable, "-m", "graphmill", "doctor", "--json"]
    report = json.loads(subprocess.run(command, capture_output=True, check=False).stdout)
    advice = [line for line in report["advice"] if distribution in line]
    print(*advice, sep="\n", end="")
    return bool(advice) or all(p["distribution"] != distribution for p in report["plugins"])


def run(*arguments: str, cwd: Path | None = None, check: bool = False) -> int:
    """Run Python; return the exit status."""
    return subprocess.run([sys.executable, *arguments], cwd=cwd, check=check).returncode


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
