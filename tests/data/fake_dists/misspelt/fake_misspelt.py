"""A plugin with a misspelt hook name."""

from __future__ import annotations

import graphmill


@graphmill.hookimpl
def graphmill_regsiter_ops(ops):
    ops.add(None)
