"""Sessions on Ray clusters, whose target is a cluster name instead of an address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi.cluster import SessionFactory
from graphmill_plugins.distributed.client import GrpcSessionFactory
from graphmill_plugins.distributed.ray.names import parse_target
from graphmill_plugins.distributed.ray.resolver import RayClusterResolver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import Host
    from graphmill.spi.cluster import SessionInterface
    from graphmill.spi.protos import proto
    from graphmill_plugins.distributed.ray.engine import Engine


class RaySessionFactory(SessionFactory):
    """Makes sessions on the masters of `ray-cluster://CLUSTER[/JOB/TASK]`.

    Each new session goes to where the task is at that time. One whose task restarts ends with
    UnavailableError, as on `grpc://` targets; the next finds it.

    Args:
        engine: what stands for Ray in tests.
    """

    def __init__(self, engine: Engine | None = None) -> None:
        self._engine = engine
        self._grpc = GrpcSessionFactory()

    def new_session(self, target: str, config: proto.ConfigProto, host: Host) -> SessionInterface:
        """Return a session; see `SessionFactory.new_session`."""
        return self._grpc.new_session(self._resolved(target), config, host)

    def reset(
        self, target: str, containers: Sequence[str], config: proto.ConfigProto, host: Host
    ) -> None:
        """Close all sessions of a master and clear containers; see `SessionFactory.reset`."""
        self._grpc.reset(self._resolved(target), containers, config, host)

    def _resolved(self, target: str) -> str:
        cluster, job, index = parse_target(target)
        resolver = RayClusterResolver(cluster, engine=self._engine)
        return resolver.master() if job is None else resolver.master(job, index)
