"""Clusters on Ray: each task is an actor, found by name and restarted by Ray.

    from graphmill_plugins.distributed.ray import start_cluster

    with start_cluster(4, name="training") as cluster:
        with graphmill.train.MonitoredTrainingSession(cluster.target, ...) as session:
            ...

Ray places and restarts processes; everything else is TensorFlow's protocol over gRPC. Ray and
grpcio (the extra `graphmill[ray]`) are imported when they are used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphmill_plugins.distributed.ray.cluster import RayCluster, TaskStatus, start_cluster
    from graphmill_plugins.distributed.ray.resolver import RayClusterResolver

__all__ = ["RayCluster", "RayClusterResolver", "TaskStatus", "start_cluster"]

_HOMES = {
    "RayCluster": "cluster",
    "RayClusterResolver": "resolver",
    "TaskStatus": "cluster",
    "start_cluster": "cluster",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
