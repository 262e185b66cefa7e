"""A plugin that registers a device and then fails."""

from __future__ import annotations

import graphmill


@graphmill.hookimpl
def graphmill_register_devices(devices):
    devices.add("HALF", "fake_raising_hook:NeverMade")


@graphmill.hookimpl
def graphmill_register_executors(executors):
    raise RuntimeError("the licence server is down")
