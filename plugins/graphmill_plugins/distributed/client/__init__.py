"""Clients of a master: sessions that run on a server over gRPC.

Semantics: `tensorflow/core/distributed_runtime/rpc/grpc_session.cc`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import FailedPreconditionError
from graphmill.spi import install_command
from graphmill.spi.cluster import SessionFactory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphmill.spi import Host
    from graphmill.spi.cluster import SessionInterface
    from graphmill.spi.protos import proto


class GrpcSessionFactory(SessionFactory):
    """Creates sessions on masters with targets `grpc://HOST:PORT`."""

    def new_session(self, target: str, config: proto.ConfigProto, host: Host) -> SessionInterface:
        """Return a session; the master is not called before its first run.

        Raises:
            InvalidArgumentError: the target is malformed.
            FailedPreconditionError: grpcio is not installed.
        """
        _check_library()
        from .session import GrpcSession

        return GrpcSession(target, config, host)

    def reset(
        self, target: str, containers: Sequence[str], config: proto.ConfigProto, host: Host
    ) -> None:
        """Close all sessions of a master and clear containers on its workers.

        Raises:
            OpError: the master cannot be reached, or refuses.
        """
        del host
        _check_library()
        from .channel import MasterChannel
        from .reset import reset

        channel = MasterChannel(target, config)
        try:
            reset(channel, containers, config)
        finally:
            channel.close()


def _check_library() -> None:
    try:
        import grpc
    except ImportError as error:
        raise FailedPreconditionError(
            f"sessions on grpc:// targets need grpcio: {install_command('grpc')}"
        ) from error
    del grpc
