"""The decorators that mark hook implementations and hook specifications."""

from __future__ import annotations

from typing import Final

import pluggy

PROJECT: Final = "graphmill"
"""Our project name, by which pluggy distinguishes markers of different projects."""

HOOK_PREFIX: Final = "graphmill_"
"""The prefix of every hook's name."""

hookimpl: Final = pluggy.HookimplMarker(PROJECT)
"""Mark a function of a plugin as the implementation of a hook of that name."""
hookspec: Final = pluggy.HookspecMarker(PROJECT)
