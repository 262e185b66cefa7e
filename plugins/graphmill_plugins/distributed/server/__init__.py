"""The gRPC server of a task: its port, threads, call dispatch, and `serve`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import UnimplementedError
from graphmill.spi import install_command
from graphmill.spi.cluster import ServerFactory

if TYPE_CHECKING:
    from graphmill.spi import Host
    from graphmill.spi.cluster import ServerInterface
    from graphmill.spi.protos import proto


class GrpcServerFactory(ServerFactory):
    """Creates servers that speak TensorFlow's protocol over gRPC."""

    def new_server(self, server_def: proto.ServerDef, host: Host) -> ServerInterface:
        """Return a server that has not been started; see `ServerFactory.new_server`."""
        try:
            from graphmill_plugins.distributed.server.grpc_server import GrpcServer
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in {"grpc", "grpc_health"}:
                raise
            raise UnimplementedError(
                f"a server needs the package {error.name}: {install_command('grpc')}"
            ) from error
        return GrpcServer(server_def, host)
