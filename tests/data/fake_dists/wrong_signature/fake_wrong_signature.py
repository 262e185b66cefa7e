"""A plugin whose hook has an unknown parameter."""

from __future__ import annotations

import graphmill


@graphmill.hookimpl
def graphmill_register_ops(registry):
    registry.add(None)
