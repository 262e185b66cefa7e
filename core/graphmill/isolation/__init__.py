"""Run a model in a child process that the operating system restricts.

`limits` says what is limited, `protections` whether this system can do it, `child_process` starts
and ends the process, `packets` and `tensors` are what the two exchange, `isolated_session` and
`isolated_saved_model` are what a program uses. `child` and `model_server` run in the child.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphmill.isolation.isolated_saved_model import IsolatedSavedModel
    from graphmill.isolation.isolated_session import IsolatedSession
    from graphmill.isolation.limits import IsolationLimits

__all__ = ["IsolatedSavedModel", "IsolatedSession", "IsolationLimits"]

_MODULES = {
    "IsolatedSavedModel": "isolated_saved_model",
    "IsolatedSession": "isolated_session",
    "IsolationLimits": "limits",
}


def __getattr__(name: str) -> Any:
    # The child imports modules of this package before it is restricted, and needs few of them.
    if name not in _MODULES:
        raise AttributeError(f"module 'graphmill.isolation' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"graphmill.isolation.{_MODULES[name]}"), name)
