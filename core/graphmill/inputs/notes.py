"""Notes to the user, such as on how the pixels of images are scaled."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def each_once(show: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that passes each text on to `show` only the first time."""
    shown: set[str] = set()

    def show_once(text: str) -> None:
        if text not in shown:
            shown.add(text)
            show(text)

    return show_once
