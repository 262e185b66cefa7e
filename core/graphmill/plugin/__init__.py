"""Plugins supply executors, devices, ops, kernels, passes, transports and commands.

The shortest plugin is a module with one decorated function,

    import graphmill

    @graphmill.hookimpl
    def graphmill_register_devices(devices):
        devices.add("NPU", "graphmill_npu.device:NpuFactory")

and one line in its distribution's `pyproject.toml`:

    [project.entry-points."graphmill.plugins"]
    npu = "graphmill_npu"

`hookspecs` declares all hooks; `host.Host` calls them. This package imports neither, so a plugin
module only pays for importing the marker.
"""

from __future__ import annotations

from graphmill.plugin.markers import hookimpl

__all__ = ["hookimpl"]
