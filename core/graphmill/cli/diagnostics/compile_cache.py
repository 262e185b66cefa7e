"""Report on the compile caches, for `graphmill doctor`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_OWN: Final = "GRAPHMILL_JIT_CACHE_DIR"
VARIABLES: Final = (_OWN, "JAX_COMPILATION_CACHE_DIR")


def cache_sizes() -> dict[str, int | None]:
    """Return the size in bytes of each configured cache folder; None if it does not exist yet."""
    folders = [Path(os.environ[name]).expanduser() for name in VARIABLES if os.environ.get(name)]
    sizes = {
        str(folder): sum(_file_sizes(folder)) if folder.is_dir() else None for folder in folders
    }
    return sizes or {"compilation cache": None}


def advice_on_cache() -> list[str]:
    """Return advice if graphmill's cache folder cannot be used."""
    folder = Path(os.environ.get(_OWN, "")).expanduser()
    if not os.environ.get(_OWN) or not folder.exists():
        return []
    if not folder.is_dir():
        return [f"{folder} ({_OWN}) is not a folder: set {_OWN} to a folder"]
    status = folder.stat()
    if hasattr(os, "geteuid") and status.st_uid != os.geteuid():
        return [f"{folder} ({_OWN}) belongs to another user: set {_OWN} to a folder of your own"]
    if hasattr(os, "geteuid") and status.st_mode & 0o077:
        why = f"other users can access {folder} ({_OWN}), so it is not used as a cache"
        return [f"{why}: chmod 700 {folder}"]
    return []


def _file_sizes(folder: Path) -> Iterator[int]:
    for path in folder.rglob("*"):
        try:
            yield path.stat().st_size
        except FileNotFoundError:  # another process evicted it
            continue
