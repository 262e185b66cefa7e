"""Ask all tasks of a cluster for their status, over gRPC."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import grpc

from graphmill.errors import UnavailableError
from graphmill.spi.protos import proto
from graphmill_plugins._server.status import error_from_rpc
from graphmill_plugins.distributed.client.channel import address_of
from graphmill_plugins.distributed.connection import CHANNEL_OPTIONS
from graphmill_plugins.distributed.credentials import credentials_of, new_channel
from graphmill_plugins.distributed.monitoring.task_status import STATUS_PATH
from graphmill_plugins.distributed.wire.methods import WORKER_METHODS

UNREACHABLE: Final = "unreachable"
_AT_ONCE: Final = 32


def cluster_status(target: str, seconds: float) -> list[dict[str, Any]]:
    """Return the status of each task of a server's cluster, its own first.

    A task that does not answer has the state "unreachable" and an `error`; one of TensorFlow's
    servers lists its devices and nothing else.

    Args:
        target: `grpc://HOST:PORT`.
        seconds: the timeout for each task.

    Raises:
        UnavailableError: the server itself cannot be reached.
        InvalidArgumentError: the target is malformed.
    """
    address = address_of(target)
    first = task_status(address, seconds)
    if first["state"] == UNREACHABLE:
        raise UnavailableError(f"the server at {address} returned no status: {first['error']}")
    addresses = first.get("cluster", {})
    others = {task: where for task, where in addresses.items() if task != first["task"]}
    if not others:
        return [{**first, "address": address}]
    with ThreadPoolExecutor(min(len(others), _AT_ONCE)) as pool:
        statuses = pool.map(lambda where: task_status(where, seconds), others.values())
        rest = [
            {**status, "task": task, "address": where}
            for (task, where), status in zip(others.items(), statuses, strict=True)
        ]
    return [{**first, "address": addresses.get(first["task"], address)}, *rest]


def task_status(address: str, seconds: float) -> dict[str, Any]:
    """Return the status of the task at an address."""
    with new_channel(address, CHANNEL_OPTIONS, credentials=credentials_of(None)) as channel:
        try:
            answer = channel.unary_unary(STATUS_PATH)(b"", timeout=seconds)
            status: dict[str, Any] = json.loads(answer)
        except grpc.RpcError as failure:
            if failure.code() is not grpc.StatusCode.UNIMPLEMENTED:
                return _unreachable(failure)
        else:
            return status
        try:
            answer = channel.unary_unary(WORKER_METHODS["GetStatus"].path)(b"", timeout=seconds)
        except grpc.RpcError as failure:
            return _unreachable(failure)
    return _of_tensorflow(proto.GetStatusResponse.FromString(answer))


def _unreachable(failure: grpc.RpcError) -> dict[str, Any]:
    error = error_from_rpc(failure, "")
    return {"task": "", "state": UNREACHABLE, "error": f"{failure.code().name}: {error.message}"}


def _of_tensorflow(response: Any) -> dict[str, Any]:
    devices = [
        {
            "name": device.name,
            "type": device.device_type,
            "memory_limit": device.memory_limit,
            "incarnation": device.incarnation,
        }
        for device in response.device_attributes
    ]
    task = devices[0]["name"].partition("/device:")[0] if devices else ""
    return {"task": task, "state": "serving", "software": "TensorFlow", "devices": devices}
