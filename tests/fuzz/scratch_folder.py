"""The folder in which a fuzz target writes the file of an input."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path


@cache
def scratch_folder() -> Path:
    """Return a folder that exists until the process ends.

    Creating and removing a folder for each input takes longer than reading most inputs.
    """
    folder = Path(tempfile.mkdtemp(prefix="graphmill_fuzz_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def new_file(name: str, content: bytes) -> Path:
    """Write a file in the folder in place of an earlier one; return its path.

    It is a file of its own, because the earlier one may still be mapped into memory.
    """
    path = scratch_folder() / name
    path.unlink(missing_ok=True)
    path.write_bytes(content)
    return path
