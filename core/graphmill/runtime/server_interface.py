"""`ServerInterface` and `ServerFactory`: cluster servers that plugins supply (clause W1).

Semantics: `tensorflow/core/distributed_runtime/server_lib.h`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from graphmill.errors import UnimplementedError

if TYPE_CHECKING:
    from collections.abc import Collection

    from graphmill.plugin.host import Host
    from graphmill.proto.cluster_pb2 import ClusterDef
    from graphmill.proto.tensorflow_server_pb2 import ServerDef


class ServerInterface(ABC):
    """One running server of some protocol; users have a `Server`, which wraps it.

    Threads: all methods may be called from any thread.
    """

    @property
    @abstractmethod
    def target(self) -> str:
        """The target of sessions on this server, such as `grpc://127.0.0.1:7001`."""

    @abstractmethod
    def start(self) -> None:
        """Start to accept calls; a second call does nothing.

        Raises:
            OpError: the address cannot be bound.
        """

    @abstractmethod
    def stop(self, grace: float | None) -> None:
        """Stop accepting calls, end running ones, and free everything; a second call does nothing.

        Args:
            grace: seconds that running calls may take to finish; None to cancel them at once.
        """

    @abstractmethod
    def join(self) -> None:
        """Return when the server has been stopped."""

    def update_cluster(self, cluster: ClusterDef, restarted: Collection[str]) -> None:
        """Use new addresses of the other tasks from now on.

        Sessions that used a task that has moved or restarted fail with AbortedError or
        UnavailableError; new sessions reach it.

        Args:
            cluster: the addresses of all tasks.
            restarted: names, such as `/job:worker/replica:0/task:1`, of tasks to reconnect to even
                if their addresses are unchanged.

        Raises:
            UnimplementedError: the protocol's addresses are fixed, which is the default.
        """
        del cluster, restarted
        raise UnimplementedError(f"{type(self).__name__} cannot follow tasks to other addresses")


class ServerFactory(ABC):
    """Creates the servers of one protocol; registered under its name, such as `grpc`."""

    @abstractmethod
    def new_server(self, server_def: ServerDef, host: Host) -> ServerInterface:
        """Return a server that has not been started.

        Args:
            server_def: the cluster, the task that the server is, and its default config.
            host: where ops, kernels, devices and executors come from.

        Raises:
            InvalidArgumentError: the cluster or the task is malformed.
        """
