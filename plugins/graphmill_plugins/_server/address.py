"""The address of a task: its listening address, and the one that it advertises to clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from graphmill.errors import InvalidArgumentError

if TYPE_CHECKING:
    from graphmill.spi.protos import proto

_MAX_PORT = 65535


class Address(NamedTuple):
    """A host and a port.

    Attributes:
        host: a name or an IP address; IPv6 without brackets.
        port: 0 for a free one.
    """

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_address(text: str) -> Address:
    """Return the address that `HOST:PORT` names.

    Raises:
        InvalidArgumentError: the text is malformed.
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > _MAX_PORT:
        raise InvalidArgumentError(
            f"{text!r} is not an address; expected 'HOST:PORT' with a port from 0 to {_MAX_PORT}, "
            "such as '127.0.0.1:7001' or '[::1]:7001'"
        )
    return Address(host, int(port))


def address_of(server_def: proto.ServerDef) -> Address:
    """Return the listening address of a task's server.

    Raises:
        InvalidArgumentError: the cluster lacks the task, or its address is malformed.
    """
    for job in server_def.cluster.job:
        if job.name == server_def.job_name and server_def.task_index in job.tasks:
            address = parse_address(job.tasks[server_def.task_index])
            port = server_def.port or address.port
            return Address(address.host, port)
    raise InvalidArgumentError(
        f"the cluster has no task {server_def.task_index} of job {server_def.job_name!r}"
    )
