"""Use graphmill from this checkout, whether or not it is installed in the environment."""

from __future__ import annotations

import importlib
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "core"), str(ROOT / "plugins")]


def host() -> Any:
    """Return a host with only the built-in plugins of this checkout's pyproject.toml."""
    from graphmill.plugin.host import Host

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = project["entry-points"]["graphmill.plugins"].values()
    return Host(plugins=[importlib.import_module(name) for name in names], load_entry_points=False)
