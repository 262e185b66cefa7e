"""The methods of both services: path, request and response types.

Semantics: `tensorflow/core/protobuf/master_service.proto` and `worker_service.proto`. Servers and
clients use generic handlers on bytes, so no generated service code is needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from graphmill.spi.protos import proto

if TYPE_CHECKING:
    from google.protobuf.message import Message

MASTER_SERVICE: Final = "tensorflow.MasterService"
WORKER_SERVICE: Final = "tensorflow.WorkerService"


class Method(NamedTuple):
    """One unary method of a service.

    Attributes:
        service: full name of the service.
        name: as `RunStep`.
    """

    service: str
    name: str

    @property
    def path(self) -> str:
        """The path of its requests, such as `/tensorflow.MasterService/RunStep`."""
        return f"/{self.service}/{self.name}"

    @property
    def request(self) -> type[Message]:
        """The class of its request."""
        return _message(f"{self.name}Request")

    @property
    def response(self) -> type[Message]:
        """The class of its response."""
        return _message(f"{self.name}Response")


def _message(name: str) -> type[Message]:
    message: type[Message] = getattr(proto, name)
    return message


def _methods(service: str, names: str) -> dict[str, Method]:
    return {name: Method(service, name) for name in names.split()}


MASTER_METHODS: Final = _methods(
    MASTER_SERVICE,
    "CreateSession ExtendSession PartialRunSetup RunStep CloseSession ListDevices Reset "
    "MakeCallable RunCallable ReleaseCallable",
)
"""The methods of a master by name."""

WORKER_METHODS: Final = _methods(
    WORKER_SERVICE,
    "GetStatus CreateWorkerSession DeleteWorkerSession RegisterGraph DeregisterGraph RunGraph "
    "CleanupGraph CleanupAll RecvTensor Logging Tracing RecvBuf GetStepSequence CompleteGroup "
    "CompleteInstance MarkRecvFinished",
)
"""The methods of a worker by name."""

LOCAL_ADDRESS_PATH: Final = "/graphmill.LocalSocket/Address"
"""The method that returns the name of a task's local socket to tasks of the same machine.

Request: their `host_identity`. Response: the name; empty if there is none for them. It is no method
of TensorFlow's, whose servers answer UNIMPLEMENTED.
"""
