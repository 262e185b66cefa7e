"""A custom device that counts its kernel calls and copies, in forty lines.

    python examples/own_device/device.py

Its values are NumPy arrays behind a namespace that records each function that kernels call. The
kernels are graphmill's: a device that says `backends = ("numpy",)` runs all of them. A plugin
registers it by an entry point; here the host gets it directly. `graphmill new-plugin device NAME`
makes a distribution with the conformance suite.
"""

from __future__ import annotations

import types
from collections import Counter
from typing import Any

import numpy as np

import graphmill
from graphmill.spi import Device, DeviceAttributes, DeviceFactory, hookimpl

COPIES: Counter[str] = Counter()


class MeteredDevice(Device):
    """A device with memory of its own; every copy in and out is counted in `COPIES`."""

    backends = ("numpy",)

    def namespace(self, backend: str) -> Any:
        """Return the array functions for kernels."""
        return np

    def to_device(self, value: Any) -> Any:
        """Copy from the host."""
        COPIES["in"] += np.asarray(value).nbytes
        return np.array(value)

    def to_host(self, value: Any) -> Any:
        """Copy to the host."""
        COPIES["out"] += np.asarray(value).nbytes
        return np.array(value)


class MeteredFactory(DeviceFactory):
    """Makes one metered device for each session, or as many as `device_count` says."""

    def create_devices(self, config: Any, name_prefix: str) -> list[Device]:
        """Return the devices of a session."""
        count = config.device_count.get("METERED", 1)
        names = [f"{name_prefix}/device:METERED:{index}" for index in range(count)]
        return [MeteredDevice(DeviceAttributes(n, "METERED", memory_limit=1 << 30)) for n in names]


@hookimpl
def graphmill_register_devices(devices: Any) -> None:
    """Register the device type."""
    devices.add("METERED", MeteredFactory)


def main() -> tuple[np.ndarray, dict[str, int]]:
    """Run a product on the device; return the result and the bytes copied in and out."""
    plugin = types.ModuleType("metered")
    plugin.graphmill_register_devices = graphmill_register_devices  # type: ignore[attr-defined]
    COPIES.clear()
    graph = graphmill.Graph()
    with graph.as_default():
        x = graph.placeholder("float32", [256, 256], name="x")
        with graph.device("/device:METERED:0"):
            y = graphmill.ops.math.sum(x @ x @ x, [0, 1])
    host = graphmill.Host(plugins=[plugin])
    with graphmill.Session(graph=graph, host=host) as session:
        result = session.run(y, {x: np.full((256, 256), 0.01, np.float32)})
    print(f"{result:.1f}; copied {COPIES['in']} bytes in, {COPIES['out']} bytes out")
    return result, dict(COPIES)


if __name__ == "__main__":
    main()
