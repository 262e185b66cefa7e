"""One of two plugins that use the same entry-point name."""

from __future__ import annotations

import graphmill


@graphmill.hookimpl
def graphmill_register_devices(devices):
    devices.add("TWIN_A", "fake_twin_a:NeverMade")
