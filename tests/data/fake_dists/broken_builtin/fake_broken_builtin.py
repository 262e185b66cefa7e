"""Plays a broken built-in plugin."""

from __future__ import annotations

import graphmill


@graphmill.hookimpl
def graphmill_register_executors(executors):
    raise RuntimeError("our own fault")
