"""A plugin with a slip of the pen in the name of its hook."""

from __future__ import annotations

import graphmill


@graphmill.hookimpl
def graphmill_regsiter_ops(ops):
    ops.add(None)
