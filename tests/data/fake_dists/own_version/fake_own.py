"""Plays a built-in plugin, of a version that is known."""

from __future__ import annotations

import graphmill


@graphmill.hookimpl
def graphmill_configure(host):
    pass
