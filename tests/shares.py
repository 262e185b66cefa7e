"""Divide slow tests among several runs: `pytest --share 1/4`.

Tests marked `divided` compare values that depend on the code much more than on the Python or the
libraries that run it. Continuous integration runs the suite on several Pythons; each run takes
another share of these tests, so that together the runs take all of them once. Without the option a
run takes all.
"""

from __future__ import annotations

import os
import re
import zlib
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence

VARIABLE = "GRAPHMILL_TEST_SHARE"


class Share(NamedTuple):
    """The `number`-th of `count` shares, counted from 1."""

    number: int
    count: int

    def has(self, nodeid: str) -> bool:
        """Return whether a test belongs to this share."""
        return zlib.crc32(nodeid.encode()) % self.count == self.number - 1


def parse_share(text: str) -> Share:
    """Parse a share such as 1/4.

    Raises:
        pytest.UsageError: it names none.
    """
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    share = Share(*map(int, found.groups())) if found else Share(0, 0)
    if not 1 <= share.number <= share.count:
        raise pytest.UsageError(f"{text!r} is no share of the tests; expected 1/4, 2/4, 3/4 or 4/4")
    return share


def add_option(parser: pytest.Parser) -> None:
    """Add the option `--share`, which the environment may also set."""
    parser.addoption(
        "--share",
        metavar="K/N",
        default=os.environ.get(VARIABLE, "1/1"),
        help=f"take the K-th of N shares of the tests marked `divided` (default: ${VARIABLE}, or "
        "all of them)",
    )


def deselect_other_shares(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the marked tests of other shares."""
    share = parse_share(config.getoption("share"))
    others = [item for item in items if _is_divided(item) and not share.has(item.nodeid)]
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = _without(items, others)


def _is_divided(item: pytest.Item) -> bool:
    return item.get_closest_marker("divided") is not None


def _without(items: Sequence[pytest.Item], others: Sequence[pytest.Item]) -> list[pytest.Item]:
    left_out = set(others)
    return [item for item in items if item not in left_out]
