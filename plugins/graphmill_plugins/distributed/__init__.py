"""TensorFlow's distributed runtime over gRPC: masters, workers and clients.

Semantics: `tensorflow/core/distributed_runtime`. grpcio (the extra `graphmill[grpc]`) is imported
when a server, or a session for a target `grpc://HOST:PORT`, is created, not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.spi import hookimpl

if TYPE_CHECKING:
    from graphmill.spi import Registrar
    from graphmill.spi.cluster import ServerFactory, SessionFactory


@hookimpl
def graphmill_register_session_factories(session_factories: Registrar[SessionFactory]) -> None:
    """Register the clients of masters: by address over gRPC, and by the name of a Ray cluster."""
    session_factories.add("grpc", "graphmill_plugins.distributed.client:GrpcSessionFactory")
    session_factories.add(
        "ray-cluster", "graphmill_plugins.distributed.ray.session:RaySessionFactory"
    )


@hookimpl
def graphmill_register_servers(servers: Registrar[ServerFactory]) -> None:
    """Register the server of a task: its master and its worker."""
    servers.add("grpc", "graphmill_plugins.distributed.server:GrpcServerFactory")


@hookimpl
def graphmill_register_commands(commands: Registrar[object]) -> None:
    """Register the commands that serve a task, forward to one, and show a cluster's status."""
    commands.add("serve", "graphmill_plugins.distributed.server.serve:serve")
    commands.add("forward", "graphmill_plugins.distributed.server.forward_command:forward")
    commands.add("cluster", "graphmill_plugins.distributed.monitoring.cluster_command:cluster")
