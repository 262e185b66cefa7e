"""`GrpcServer`: a task's server with TensorFlow's services on one port (clauses W1, W2).

Semantics: `tensorflow/core/distributed_runtime/rpc/grpc_server_lib.cc`; unlike there only the
host that the cluster names is bound.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from graphmill.errors import FailedPreconditionError, UnavailableError
from graphmill.spi.cluster import DeviceMgr, ServerInterface, create_devices
from graphmill_plugins._server.address import Address, address_of
from graphmill_plugins._server.call_threads import CallThreads
from graphmill_plugins._server.event_log import log_event
from graphmill_plugins._server.new_server import new_server
from graphmill_plugins._server.prometheus import exposition
from graphmill_plugins.distributed.credentials import credentials_of
from graphmill_plugins.distributed.heartbeat import silence_seconds
from graphmill_plugins.distributed.local_socket.local_server import LocalServer
from graphmill_plugins.distributed.master.cluster_workers import ClusterWorkers
from graphmill_plugins.distributed.master.service import MasterService
from graphmill_plugins.distributed.monitoring.call_counters import CallCounters
from graphmill_plugins.distributed.monitoring.metrics_endpoint import (
    PATH,
    MetricsEndpoint,
    metrics_port,
)
from graphmill_plugins.distributed.monitoring.server_metrics import ServerMetrics
from graphmill_plugins.distributed.monitoring.task_status import STATUS_PATH, StatusService
from graphmill_plugins.distributed.server.dispatch import Services
from graphmill_plugins.distributed.server.limits import Limits, StepSlots
from graphmill_plugins.distributed.transfer.settings import TransferSettings
from graphmill_plugins.distributed.wire.methods import (
    LOCAL_ADDRESS_PATH,
    MASTER_METHODS,
    MASTER_SERVICE,
    WORKER_METHODS,
    WORKER_SERVICE,
)
from graphmill_plugins.distributed.worker.service import WorkerService

if TYPE_CHECKING:
    from collections.abc import Collection

    from graphmill.spi import Host
    from graphmill.spi.protos import proto
    from graphmill_plugins._server.new_server import Server
    from graphmill_plugins.distributed.server.dispatch import Behaviour

_log = logging.getLogger("graphmill.server")

MAX_CALLS: Final = 8192
"""Maximum number of calls that run or wait; further ones fail with RESOURCE_EXHAUSTED."""

_STATIC_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Otherwise two servers on one port would share its calls.
    ("grpc.so_reuseport", 0),
    # The defaults cancel some of two thousand simultaneous calls.
    ("grpc.server.max_pending_requests", MAX_CALLS),
    ("grpc.server.max_pending_requests_hard_limit", 2 * MAX_CALLS),
    # Allow clients more frequent pings than gRPC's five minutes.
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 1000),
    ("grpc.http2.max_pings_without_data", 0),
)


def _options(silence: float) -> tuple[tuple[str, int], ...]:
    """Return the options of a server that disconnects silent clients.

    gRPC sends pings on each connection. The steps of such clients are cancelled.
    """
    if not silence:
        return _STATIC_OPTIONS
    milliseconds = max(1, round(silence * 1000))
    return (
        *_STATIC_OPTIONS,
        ("grpc.keepalive_time_ms", milliseconds),
        ("grpc.keepalive_timeout_ms", milliseconds),
        ("grpc.http2.ping_timeout_ms", milliseconds),
        ("grpc.keepalive_permit_without_calls", 1),
    )


class GrpcServer(ServerInterface):
    """The server of one task.

    Args:
        server_def: the cluster, and the task of this server.
        host: where ops, kernels, devices and executors come from.

    Raises:
        InvalidArgumentError: the address of the task is malformed.

    Threads: any may call anything; `_lock` guards starting and stopping.
    """

    def __init__(self, server_def: proto.ServerDef, host: Host) -> None:
        self._address = address_of(server_def)
        self._port: int | None = None
        prefix = f"/job:{server_def.job_name}/replica:0/task:{server_def.task_index}"
        config = self._config = server_def.default_session_config
        self._devices = DeviceMgr(create_devices(host, config, prefix))
        self._silence = silence_seconds(config)
        self._credentials = credentials_of(config, is_server=True)
        limits = Limits.of(config)
        slots = StepSlots(limits)
        self._worker = WorkerService(host, self._devices, server_def, slots)
        self._cluster = ClusterWorkers(server_def, self._worker.worker, host.variants)
        self._master = MasterService(
            host, self._devices, config, prefix, self._cluster, limits, slots
        )
        paths = [method.path for method in (*MASTER_METHODS.values(), *WORKER_METHODS.values())]
        self._calls = CallCounters([*paths, STATUS_PATH, LOCAL_ADDRESS_PATH])
        self._metrics = ServerMetrics(prefix, self._calls, self._master, self._worker)
        self._status = StatusService(self._devices, self._cluster, self._metrics)
        self._metrics_port = metrics_port(config)
        self._endpoint: MetricsEndpoint | None = None
        self._lock = threading.Lock()
        self._threads = CallThreads()
        self._local = LocalServer(
            self._worker_behaviours(),
            {WORKER_METHODS[name].path: one for name, one in self._worker.starters().items()},
            self._calls,
            self._threads,
            MAX_CALLS,
        )
        self._health = health.HealthServicer()
        self._server: Server | None = None
        self._is_stopping = False
        self._stopped = threading.Event()

    @property
    def target(self) -> str:
        """The target of sessions on this server."""
        port = self._address.port if self._port is None else self._port
        return f"grpc://{Address(self._address.host, port)}"

    @property
    def metrics_address(self) -> str | None:
        """The address of the metrics, such as `127.0.0.1:9090`; None without metrics."""
        return None if self._endpoint is None else self._endpoint.address

    def start(self) -> None:
        """Start accepting calls; see `ServerInterface.start`."""
        with self._lock:
            if self._is_stopping:
                raise FailedPreconditionError("the server was stopped; create a new one")
            if self._server is None:
                if self._metrics_port is not None:
                    self._endpoint = self._new_endpoint(self._metrics_port)
                try:
                    self._server = self._listening()
                except BaseException:
                    self._close_endpoint()
                    raise
        for name in ("", MASTER_SERVICE, WORKER_SERVICE):
            self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    def stop(self, grace: float | None) -> None:
        """Wait for running calls, then free everything; see `ServerInterface.stop`."""
        with self._lock:
            was_stopping, self._is_stopping = self._is_stopping, True
            server = self._server
        if was_stopping:
            self._stopped.wait()
            return
        self._status.is_draining = True
        self._health.enter_graceful_shutdown()
        self._local.stop_accepting()
        if server is not None:
            stopped = server.stop(grace)
            self._local.stop(grace)
            stopped.wait()
        self._master.close()
        self._cluster.close()
        self._worker.close()
        self._devices.close()
        self._threads.shut_down()
        self._close_endpoint()
        self._stopped.set()

    def join(self) -> None:
        """Return when the server has been stopped."""
        self._stopped.wait()

    def update_cluster(self, cluster: proto.ClusterDef, restarted: Collection[str]) -> None:
        """Use new addresses of the other tasks from now on; see `ServerInterface`."""
        self._cluster.update(cluster, restarted)
        self._worker.update_cluster(cluster, restarted)

    def _listening(self) -> Server:
        server = new_server(
            self._threads,
            (Services(self._behaviours(), self._calls),),
            _options(self._silence),
            MAX_CALLS,
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, server)
        try:
            if self._credentials is None:
                self._port = server.add_insecure_port(str(self._address))
            else:
                own = self._credentials.of_server()
                self._port = server.add_secure_port(str(self._address), own)
        except RuntimeError as error:
            raise UnavailableError(
                f"the server cannot listen on {self._address}: the port is in use, or the host is "
                "not an address of this machine"
            ) from error
        if TransferSettings.of(self._config).local_socket and self._credentials is None:
            self._local.start()
        server.start()
        return server

    def _new_endpoint(self, port: int) -> MetricsEndpoint:
        endpoint = MetricsEndpoint(
            self._address.host, port, lambda: exposition(self._metrics.collect())
        )
        log_event(_log, logging.INFO, "metrics offered", url=f"http://{endpoint.address}{PATH}")
        return endpoint

    def _close_endpoint(self) -> None:
        endpoint, self._endpoint = self._endpoint, None
        if endpoint is not None:
            endpoint.close()

    def _behaviours(self) -> dict[str, Behaviour]:
        master = self._master.behaviours()
        return {
            **{MASTER_METHODS[name].path: behaviour for name, behaviour in master.items()},
            **self._worker_behaviours(),
            **self._status.behaviours(),
            LOCAL_ADDRESS_PATH: self._local.address,
        }

    def _worker_behaviours(self) -> dict[str, Behaviour]:
        worker = self._worker.behaviours()
        return {WORKER_METHODS[name].path: behaviour for name, behaviour in worker.items()}
