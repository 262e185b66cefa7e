"""Name a function in messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def function_source(function: Callable[..., Any]) -> str:
    """Return where a function is defined, as `module.function` or `module.outer.inner`."""
    name: str = getattr(function, "__qualname__", str(function))
    return f"{function.__module__}.{name.replace('.<locals>', '')}"
