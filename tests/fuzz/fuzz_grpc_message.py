"""Fuzz target: requests to a worker, as its server receives them from the network.

The first byte chooses the method. Requests that wait for other tasks by design are left out.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

from typed_errors import typed_errors

import graphmill
from graphmill import proto
from graphmill.spi.cluster import DeviceMgr, create_devices
from graphmill_plugins.distributed.worker.service import WorkerService

_METHODS = (
    "GetStatus",
    "CreateWorkerSession",
    "DeleteWorkerSession",
    "RegisterGraph",
    "DeregisterGraph",
    "RunGraph",
    "CleanupGraph",
    "CleanupAll",
    "Logging",
    "GetStepSequence",
    "MarkRecvFinished",
)


def seeds() -> list[bytes]:
    """Return one request of each method."""
    graph = graphmill.Graph()
    with graph.as_default():
        graph.constant(1.0, name="c")
    register = proto.RegisterGraphRequest(session_handle="s", graph_def=graph.as_graph_def())
    known = {
        "CreateWorkerSession": proto.CreateWorkerSessionRequest(
            session_handle="s", server_def=_server_def()
        ),
        "RegisterGraph": register,
        "RunGraph": proto.RunGraphRequest(session_handle="s", graph_handle="g", step_id=1),
    }
    requests = [known.get(name) or getattr(proto, f"{name}Request")() for name in _METHODS]
    return [
        bytes([number]) + request.SerializeToString() for number, request in enumerate(requests)
    ]


def _server_def() -> Any:
    server_def = proto.ServerDef(job_name="worker", protocol="grpc")
    server_def.cluster.job.add(name="worker").tasks[0] = "127.0.0.1:1"
    return server_def


@cache
def _behaviours() -> dict[str, Any]:
    host, name = graphmill.default_host(), "/job:worker/replica:0/task:0"
    devices = DeviceMgr(create_devices(host, proto.ConfigProto(), name))
    return WorkerService(host, devices, _server_def()).behaviours()


def read_message(data: bytes) -> Any:
    """Return the request in a seed."""
    return getattr(proto, f"{_METHODS[data[0]]}Request").FromString(data[1:])


def write_message(message: Any, data: bytes) -> bytes:
    """Return a request to the method of a seed as input."""
    return data[:1] + message.SerializeToString()


def fuzz(data: bytes) -> None:
    """Call a method."""
    if not data:
        return
    call = SimpleNamespace(code=0, fields=None, on_end=lambda callback: True)
    method = _METHODS[data[0] % len(_METHODS)]
    with typed_errors():
        _behaviours()[method](data[1:], call)


if __name__ == "__main__":
    import sys

    from harness import main

    main(sys.modules[__name__])
