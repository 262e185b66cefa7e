"""Plays a built-in plugin with a given version."""

from __future__ import annotations

import graphmill


@graphmill.hookimpl
def graphmill_configure(host):
    pass
