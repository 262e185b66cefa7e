"""What tests of file access share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def descriptors_below() -> Callable[[Path], list[str]]:
    """Return the paths below a folder for which this process holds a descriptor.

    A count of all descriptors would depend on the threads and unreferenced sockets of other tests.
    """

    def found(folder: Path) -> list[str]:
        paths = []
        for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - the links' names are numbers
            try:
                paths.append(os.readlink(f"/proc/self/fd/{name}"))  # noqa: PTH115 - no resolving
            except FileNotFoundError:  # closed since, like that of the listing itself
                continue
        return [path for path in paths if path.startswith(str(folder))]

    return found
