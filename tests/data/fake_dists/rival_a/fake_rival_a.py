"""One of two plugins that claim the same device type."""

from __future__ import annotations

import graphmill


@graphmill.hookimpl
def graphmill_register_devices(devices):
    devices.add("RIVAL", "fake_rival_a:NeverMade")
    devices.add("RIVAL_A", "fake_rival_a:NeverMade")
