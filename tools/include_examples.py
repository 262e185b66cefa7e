"""Copy the example files into the pages that show them.

A page has a line `<!-- file: docs/examples/x.py -->` before a fenced block; the tool replaces the
content of the block by that of the file.

    python tools/include_examples.py            write the pages
    python tools/include_examples.py --check    fail if a page differs from what would be written
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"(<!-- file: (\S+) -->\n```\w+\n).*?(^```$)", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    """Return the pages that show files."""
    paths = sorted((ROOT / "docs").rglob("*.md"))
    return [page for page in paths if BLOCK.search(page.read_text(encoding="utf-8"))]


def included(text: str) -> str:
    """Return a page's text with the contents of the files in its blocks."""

    def fill(match: re.Match[str]) -> str:
        return match[1] + (ROOT / match[2]).read_text(encoding="utf-8") + match[3]

    return BLOCK.sub(fill, text)


def main(arguments: list[str]) -> int:
    """Write or check the pages; return the exit status."""
    stale = [page for page in pages() if included(text := page.read_text(encoding="utf-8")) != text]
    for page in stale:
        if "--check" in arguments:
            print(f"{page} is out of date; run python tools/include_examples.py")
        else:
            page.write_text(included(page.read_text(encoding="utf-8")), encoding="utf-8")
    return int(bool(stale) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
