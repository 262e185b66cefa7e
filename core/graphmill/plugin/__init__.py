"""Plugins: how executors, devices, ops, kernels, passes, transports and commands come in.

The shortest plugin is a module with one decorated function,

    import graphmill

    @graphmill.hookimpl
    def graphmill_register_devices(devices):
        devices.add("NPU", "graphmill_npu.device:NpuFactory")

and one line in its distribution's `pyproject.toml`:

    [project.entry-points."graphmill.plugins"]
    npu = "graphmill_npu"

All hooks are in `hookspecs`; `host.Host` assembles them. This package itself imports neither, so
that a plugin module costs nothing but the marker.
"""

from __future__ import annotations

from graphmill.plugin.markers import hookimpl

__all__ = ["hookimpl"]
