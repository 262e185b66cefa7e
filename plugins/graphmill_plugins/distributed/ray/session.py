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
    """Creates sessions on masters with targets `ray-cluster://CLUSTER[/JOB/TASK]`.

    Each new session connects to the current address of the task. If the task restarts, the session
    fails with UnavailableError, as on `grpc://` targets; a new session reaches the task.

    Args:
        engine: a replacement for Ray in tests.
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
