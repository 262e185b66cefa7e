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
    """A host with the built-in plugins that this checkout's pyproject.toml names, and no others."""
    from graphmill.plugin.host import Host

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = project["entry-points"]["graphmill.plugins"].values()
    return Host(plugins=[importlib.import_module(name) for name in names], load_entry_points=False)
