"""A plugin whose hook asks for an argument that the hook does not have."""

from __future__ import annotations

import graphmill


@graphmill.hookimpl
def graphmill_register_ops(registry):
    registry.add(None)
