"""A master that runs sessions in this process, and fails on request."""

from __future__ import annotations

import threading
from concurrent import futures
from typing import Any

import grpc

import graphmill
from graphmill import errors, proto
from graphmill.spi import VariantRegistry
from graphmill_plugins._server.status import error_message, grpc_status
from graphmill_plugins.distributed.wire.methods import MASTER_METHODS
from graphmill_plugins.distributed.wire.tensor_messages import (
    RUN_CALLABLE_REQUEST,
    RUN_CALLABLE_RESPONSE,
    RUN_STEP_REQUEST,
    RUN_STEP_RESPONSE,
    NamedTensor,
)

VARIANTS = VariantRegistry("variant")

WAITING = 30
"""Seconds after which a hanging test fails."""


class FakeMaster(grpc.GenericRpcHandler):
    """Serves the methods of a master.

    Attributes:
        calls: the names of the methods that were called, and their requests.
        peers: the connections that they came by.
        failures: errors that the next calls of a method end with, as gRPC status.
        blocked: methods whose calls wait until their client gives up, or the master is stopped.
        arrived: set when a blocked call has come.
        cancelled: set when the client of a blocked call has given up.
    """

    def __init__(self, port: int = 0) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.peers: set[str] = set()
        self.failures: dict[str, list[errors.OpError]] = {}
        self.blocked: set[str] = set()
        self.arrived = threading.Event()
        self.cancelled = threading.Event()
        self._sessions: dict[str, graphmill.Session] = {}
        self._versions: dict[str, int] = {}
        self._callables: dict[int, Any] = {}
        options = [("grpc.max_receive_message_length", -1), ("grpc.so_reuseport", 0)]
        self._server = grpc.server(futures.ThreadPoolExecutor(8), options=options)
        self._server.add_generic_rpc_handlers((self,))
        self.port = self._server.add_insecure_port(f"127.0.0.1:{port}")
        self.target = f"grpc://127.0.0.1:{self.port}"
        self._server.start()

    def names(self) -> list[str]:
        """Return the names of the called methods."""
        return [name for name, _ in self.calls]

    def requests(self, method: str) -> list[Any]:
        """Return the requests of the calls of one method."""
        return [request for name, request in self.calls if name == method]

    def stop(self) -> None:
        """End all calls and free everything."""
        self._server.stop(None).wait(WAITING)
        for session in self._sessions.values():
            session.close()

    def service(self, details: Any) -> Any:
        """Return the handler of a method."""
        name = details.method.rpartition("/")[2]
        assert details.method == MASTER_METHODS[name].path
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: self._serve(name, request, context)
        )

    def _serve(self, name: str, data: bytes, context: Any) -> bytes:
        request = MASTER_METHODS[name].request.FromString(data)
        self.calls.append((name, request))
        self.peers.add(context.peer())
        if self.failures.get(name):
            context.abort(*grpc_status(self.failures[name].pop(0)))
        if name in self.blocked:
            ended = threading.Event()
            context.add_callback(ended.set)
            self.arrived.set()
            ended.wait(WAITING)
            self.cancelled.set()
            return b""
        try:
            answer = getattr(self, name)(request, data)
        except errors.OpError as error:
            context.abort(*grpc_status(error))
        return answer if isinstance(answer, bytes) else answer.SerializeToString()

    def CreateSession(self, request, data):
        handle = f"session-{len(self._sessions)}"
        self._sessions[handle] = graphmill.Session(graph=request.graph_def, config=request.config)
        self._versions[handle] = 5
        return proto.CreateSessionResponse(session_handle=handle, graph_version=5)

    def ExtendSession(self, request, data):
        handle = request.session_handle
        if request.current_graph_version != self._versions[handle]:
            raise errors.AbortedError("stale version")
        self._session(handle).extend(request.graph_def)
        self._versions[handle] += 1
        return proto.ExtendSessionResponse(new_graph_version=self._versions[handle])

    def RunStep(self, request, data):
        assert request.store_errors_in_response_body
        assert request.HasField("options")
        assert request.request_id
        _, tensors = RUN_STEP_REQUEST.decode(data, VARIANTS)
        feeds = {tensor.name: tensor.value for tensor in tensors}
        response: Any = proto.RunStepResponse()
        fetches = list(request.fetch)
        try:
            session = self._session(request.session_handle)
            if request.partial_run_handle:
                found = session.partial_run(request.partial_run_handle, fetches, feeds)
            else:
                found = session.run(
                    fetches,
                    feeds,
                    targets=list(request.target),
                    options=request.options,
                    run_metadata=response.metadata,
                )
        except errors.OpError as error:
            return proto.RunStepResponse(
                status_code=error.code, status_error_message=error_message(error)
            )
        return RUN_STEP_RESPONSE.encode(response, map(NamedTensor, fetches, found), VARIANTS)

    def PartialRunSetup(self, request, data):
        session = self._session(request.session_handle)
        handle = session.partial_run_setup(
            list(request.fetch), list(request.feed), list(request.target)
        )
        return proto.PartialRunSetupResponse(partial_run_handle=handle)

    def MakeCallable(self, request, data):
        number = len(self._callables)  # the first one is 0, as in TensorFlow
        session = self._session(request.session_handle)
        self._callables[number] = session.make_callable_from_options(request.options)
        return proto.MakeCallableResponse(handle=number)

    def RunCallable(self, request, data):
        _, tensors = RUN_CALLABLE_REQUEST.decode(data, VARIANTS)
        metadata = proto.RunMetadata()
        values = [tensor.value for tensor in tensors]
        found = self._callables[request.handle](*values, run_metadata=metadata)
        response = proto.RunCallableResponse(metadata=metadata)
        return RUN_CALLABLE_RESPONSE.encode(
            response, [NamedTensor("", value) for value in found], VARIANTS
        )

    def ReleaseCallable(self, request, data):
        self._callables[request.handle] = None
        return proto.ReleaseCallableResponse()

    def ListDevices(self, request, data):
        devices = self._session(request.session_handle).list_devices()
        response = proto.ListDevicesResponse(local_device=[d.to_proto() for d in devices])
        response.remote_device.add(
            name="/job:ps/replica:0/task:0/device:CPU:0", device_type="CPU", incarnation=2**64 - 1
        )
        return response

    def CloseSession(self, request, data):
        self._session(request.session_handle).close()
        return proto.CloseSessionResponse()

    def Reset(self, request, data):
        return proto.ResetResponse()

    def _session(self, handle: str) -> graphmill.Session:
        if handle not in self._sessions:
            raise errors.AbortedError(f"Session {handle} is not found.")
        return self._sessions[handle]
