"""One of two plugins that claim the same device type."""

from __future__ import annotations

import graphmill


@graphmill.hookimpl
def graphmill_register_devices(devices):
    devices.add("RIVAL", "fake_rival_b:NeverMade")
    devices.add("RIVAL_B", "fake_rival_b:NeverMade")
