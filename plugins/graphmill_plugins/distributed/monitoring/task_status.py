"""`StatusService`: return a task's status as JSON to `graphmill cluster status`.

A service of graphmill in addition to TensorFlow's two; TensorFlow's servers answer UNIMPLEMENTED.
"""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any, Final

from graphmill import __version__

if TYPE_CHECKING:
    from graphmill.spi.cluster import DeviceMgr
    from graphmill_plugins.distributed.master.cluster_workers import ClusterWorkers
    from graphmill_plugins.distributed.monitoring.server_metrics import ServerMetrics
    from graphmill_plugins.distributed.server.dispatch import Behaviour, Call

CLUSTER_SERVICE: Final = "graphmill.ClusterService"
STATUS_PATH: Final = f"/{CLUSTER_SERVICE}/Status"
"""The method of the service; its request is empty, its response a JSON object."""

SERVING: Final = "serving"
DRAINING: Final = "draining"


class StatusService:
    """Returns the current status of a server.

    Args:
        devices: the server's devices.
        cluster: the other tasks.
        metrics: the server's metrics.

    Attributes:
        is_draining: whether the server has stopped accepting calls; set by the server.
    """

    def __init__(self, devices: DeviceMgr, cluster: ClusterWorkers, metrics: ServerMetrics) -> None:
        self._devices = devices
        self._cluster = cluster
        self._metrics = metrics
        self._started = time.monotonic()
        self.is_draining = False

    def behaviours(self) -> dict[str, Behaviour]:
        """Return the implementation of each method of the service, by path."""
        return {STATUS_PATH: self.answer}

    def answer(self, data: bytes, call: Call) -> bytes:
        """Return the status as JSON."""
        del data, call
        return json.dumps(self.status()).encode()

    def status(self) -> dict[str, Any]:
        """Return the status of the task.

        Returns:
            `task`, `state` ("serving" or "draining"), `software`, `process`, `uptime_seconds`,
            `devices` (name, type, memory limit in bytes, incarnation), counts by name, `cluster`
            (address by task), and `last_heartbeats` (for each other task, the seconds since its
            last message; None for no message).
        """
        now = time.time()
        heard = self._cluster.last_heartbeats().items()
        return {
            "task": self._cluster.master_task,
            "state": DRAINING if self.is_draining else SERVING,
            "software": f"graphmill {__version__}",
            "process": os.getpid(),
            "uptime_seconds": round(time.monotonic() - self._started, 3),
            "devices": [
                {
                    "name": device.attributes.name,
                    "type": device.attributes.device_type,
                    "memory_limit": device.attributes.memory_limit,
                    "incarnation": device.attributes.incarnation,
                }
                for device in self._devices
            ],
            **self._metrics.counts(),
            "cluster": dict(self._cluster.addresses()),
            "last_heartbeats": {
                task: None if when is None else round(max(now - when, 0.0), 3)
                for task, when in heard
            },
        }
