"""Sort and wrap the lists of op names in Python files: strings of several lines, only with names.

python tools/wrap_op_lists.py            rewrite the lists
python tools/wrap_op_lists.py --check    fail if a list differs from what would be written

So a new name can be added anywhere in its list, without wrapping the lines after it by hand.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = [
    *sorted((ROOT / "core" / "graphmill" / "ops").rglob("*.py")),
    ROOT / "tests" / "plugins" / "lowerings" / "test_declared_ops.py",
]
WIDTH = 100
NAME = r"_?[A-Z]\w*"
LIST = re.compile(rf'(?<=""")\n( +)({NAME}(?:\s+{NAME})*)(?=\n *""")')


def wrapped(source: str) -> str:
    """Return the text of a file with its lists sorted and wrapped."""
    return LIST.sub(_list, source)


def _list(found: re.Match[str]) -> str:
    indent, names = found[1], " ".join(sorted(found[2].split()))
    return "\n" + textwrap.fill(names, WIDTH, initial_indent=indent, subsequent_indent=indent)


def main(arguments: list[str]) -> int:
    """Rewrite or check the files; return the exit status."""
    stale = False
    for path in FILES:
        source = path.read_text(encoding="utf-8")
        expected = wrapped(source)
        if "--check" not in arguments:
            path.write_text(expected, encoding="utf-8")
        elif source != expected:
            print(f"{path} has a list to sort or wrap; run python tools/wrap_op_lists.py")
            stale = True
    return int(stale)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
