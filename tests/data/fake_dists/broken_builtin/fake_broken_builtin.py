"""A fault in graphmill's own distribution: this tree plays it."""

from __future__ import annotations

import graphmill


@graphmill.hookimpl
def graphmill_register_executors(executors):
    raise RuntimeError("our own fault")
