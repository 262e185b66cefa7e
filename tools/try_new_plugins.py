"""Make a plugin of each kind, install it with pip, and run its own tests.

python tools/try_new_plugins.py FOLDER        the environment gets each, and loses it again
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from graphmill.templates.render import KINDS, write_plugin


def main(folder: Path) -> int:
    """Try all kinds; return how many fail."""
    failed = []
    for kind in KINDS:
        name = f"try-{kind}"
        write_plugin(kind, name, folder)
        project = folder / f"graphmill-{name}"
        run("-m", "pip", "install", "--quiet", "--no-deps", str(project), check=True)
        try:
            tests = ("-m", "pytest", "-q", "--graphmill-every", "10", "tests")
            if run(*tests, cwd=project) or run("-m", "graphmill", "doctor"):
                failed.append(kind)
        finally:
            run("-m", "pip", "uninstall", "--quiet", "--yes", f"graphmill-{name}", check=True)
    print(f"{len(KINDS) - len(failed)} of {len(KINDS)} kinds work; not: {', '.join(failed) or '-'}")
    return len(failed)


def run(*arguments: str, cwd: Path | None = None, check: bool = False) -> int:
    """Run Python; return the exit status."""
    return subprocess.run([sys.executable, *arguments], cwd=cwd, check=check).returncode


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
