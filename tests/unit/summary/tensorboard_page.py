"""TensorBoard's own pages, served by its package, in a headless Chromium."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Self

from tests.unit.report.chromium import LIMIT, Page

if TYPE_CHECKING:
    from pathlib import Path

_DRAWN = """new Promise((drawn) => {
    const isPainted = (canvas) => {
        const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
        copy.drawImage(canvas, 0, 0);
        return copy.getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean);
    };
    const look = () => {
        const lines = [...document.querySelectorAll("line-chart canvas")];
        const cards = document.querySelectorAll("card-view");
        if (cards.length === %d && lines.length === %d && lines.every(isPainted)) drawn(true);
        else setTimeout(look, 50);
    };
    look();
})"""
_TITLES = """[...document.querySelectorAll("card-view")].map(
    (card) => card.querySelector(".tag, .tag-path, tb-truncated-path").textContent.trim()
)"""


def has_tensorboard() -> bool:
    """Return whether TensorBoard can be imported."""
    return importlib.util.find_spec("tensorboard") is not None


class TensorBoardPage:
    """A page of TensorBoard that shows a folder of event files.

    Args:
        chromium: the browser.
        profile: an empty folder for the browser.
        logs: the folder of event files.
    """

    def __init__(self, chromium: str, profile: Path, logs: Path) -> None:
        options = ("--logdir", str(logs), "--host", "127.0.0.1", "--port", "0")
        self._board = subprocess.Popen(
            [sys.executable, "-m", "tensorboard.main", *options, "--load_fast", "false"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._address = self._read_address()
        self.page = Page(chromium, profile, 1400, 900)

    def _read_address(self) -> str:
        assert self._board.stderr is not None
        lines = []
        end = threading.Timer(LIMIT, self._board.kill)  # then there are no more lines to read
        end.start()
        try:
            for line in self._board.stderr:
                lines.append(line)
                found = re.search(r" at (http://\S+)", line)
                if found is not None:
                    return found[1]
        finally:
            end.cancel()
        raise AssertionError(f"TensorBoard served no page in {LIMIT:g} s: {''.join(lines)}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.page.__exit__()
        self._board.terminate()
        self._board.communicate()

    def open(self, num_cards: int, num_charts: int) -> None:
        """Open the time series, and wait until their cards and the lines of charts are drawn."""
        self.page.send("Page.navigate", url=f"{self._address}?darkMode=false#timeseries")
        self.page.evaluate(_DRAWN % (num_cards, num_charts))

    def titles(self) -> list[str]:
        """Return the titles of the cards."""
        titles: list[str] = self.page.evaluate(_TITLES)
        return titles
