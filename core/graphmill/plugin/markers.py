"""The decorators that mark hook implementations and hook specifications."""

from __future__ import annotations

from typing import Final

import pluggy

PROJECT: Final = "graphmill"
"""The name under which pluggy keeps our markers apart from other projects'."""

HOOK_PREFIX: Final = "graphmill_"
"""What the name of every hook begins with."""

hookimpl: Final = pluggy.HookimplMarker(PROJECT)
"""Mark a function of a plugin as the implementation of a hook of that name."""
hookspec: Final = pluggy.HookspecMarker(PROJECT)
