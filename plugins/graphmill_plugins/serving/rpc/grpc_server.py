"""`GrpcModelServer`: the APIs over gRPC, on an event loop that is already running."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from graphmill.errors import OpError, UnavailableError
from graphmill.spi.protos import proto
from graphmill_plugins._server.call_threads import CallThreads
from graphmill_plugins._server.deferred_handler import DeferredHandler
from graphmill_plugins._server.event_log import log_event
from graphmill_plugins._server.new_server import new_server
from graphmill_plugins._server.status import grpc_status
from graphmill_plugins.serving.requests.eager_task import eager_task
from graphmill_plugins.serving.requests.error_text import bounded_text
from graphmill_plugins.serving.rpc import inference_service, model_service, prediction_service
from graphmill_plugins.serving.rpc.inference_service import InferenceService
from graphmill_plugins.serving.rpc.model_service import ModelService
from graphmill_plugins.serving.rpc.prediction_service import PredictionService

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from graphmill_plugins._server.address import Address
    from graphmill_plugins._server.deferred_handler import DeferredCall
    from graphmill_plugins.serving.requests.server_core import ServerCore

    Method = Callable[[Any, float | None], Awaitable[Any]]

_ACCESS_LOG: Final = logging.getLogger("graphmill.serving.access")
_log = logging.getLogger("graphmill.serving")
_RESPONSE_SIZE: Final = -1  # no limit: the model decides


class GrpcModelServer:
    """Answers gRPC calls.

    Args:
        core: the state of the server.

    Threads: all methods are for that of the event loop. Calls arrive in threads of gRPC's, which
    parse the requests and pass them to the loop.
    """

    def __init__(self, core: ServerCore) -> None:
        self._core = core
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads = CallThreads()
        options = core.options
        handlers = [
            _Handlers(
                {
                    f"/{service}/{name}": self._handler(name, method, request_type)
                    for name, (method, request_type) in methods.items()
                }
            )
            for service, methods in _methods(core).items()
        ]
        self._server = new_server(
            self._threads,
            handlers,
            (
                ("grpc.max_receive_message_length", options.max_request_bytes),
                ("grpc.max_send_message_length", _RESPONSE_SIZE),
                ("grpc.so_reuseport", 0),
                # A client whose connection is silent for that long is gone.
                ("grpc.keepalive_time_ms", round(options.keep_alive_seconds * 1000)),
                ("grpc.keepalive_timeout_ms", round(options.receive_seconds * 1000)),
            ),
            options.max_connections,
        )
        self._health = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)

    async def start(self, address: Address) -> int:
        """Accept calls; return the port.

        Raises:
            UnavailableError: the port is in use.
        """
        try:
            port: int = self._server.add_insecure_port(str(address))
        except RuntimeError as error:
            raise UnavailableError(
                f"the server cannot listen on {address}: the port is in use, or the host is not an "
                "address of this machine"
            ) from error
        self._server.start()
        for name in ("", prediction_service.SERVICE, inference_service.SERVICE):
            self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        return port

    async def stop(self, grace: float) -> None:
        """Refuse new calls; those in progress may take `grace` seconds."""
        self._health.enter_graceful_shutdown()
        await asyncio.to_thread(lambda: self._server.stop(grace).wait())
        self._threads.shut_down()

    def _handler(self, name: str, method: Method, request_type: type[Any]) -> DeferredHandler:
        """Return a handler that passes requests to the event loop."""

        def begin(request: Any, call: DeferredCall) -> None:
            task = eager_task(self._loop, self._answer(name, method, request, call))
            if task.done():
                return
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            if not call.add_callback(lambda: self._cancel(task)):
                task.cancel()

        def start(request: Any, call: DeferredCall) -> None:
            self._loop.call_soon_threadsafe(begin, request, call)

        return DeferredHandler(start, request_type.FromString)

    def _cancel(self, task: asyncio.Task[None]) -> None:
        """Cancel the task of a call that has ended, unless it has answered."""
        if not task.done():
            self._loop.call_soon_threadsafe(task.cancel)

    async def _answer(self, name: str, method: Method, request: Any, call: DeferredCall) -> None:
        """Answer a call, and count it."""
        core, metrics = self._core, self._core.metrics
        started = time.perf_counter()
        metrics.in_flight += 1
        status = grpc.StatusCode.OK
        message = ""
        try:
            response = await method(request, time.monotonic() + call.time_remaining())
            call.answer(response.SerializeToString())
        except OpError as error:
            status, message = grpc_status(error)
        except asyncio.CancelledError:
            status, message = grpc.StatusCode.CANCELLED, "the client no longer waits"
            raise
        except Exception as error:  # noqa: BLE001 - logged, and answered
            _log.exception("request failed")
            status = grpc.StatusCode.INTERNAL
            message = f"the server failed: {type(error).__name__}"
        finally:
            if status is not grpc.StatusCode.OK:
                call.fail(status, bounded_text(message))
            metrics.in_flight -= 1
            seconds = time.perf_counter() - started
            api = f"grpc/{name}"
            model = _model_of(request)
            known = model if core.manager.is_known(model) else ""
            metrics.count(known, api, status.name, seconds)
            if _ACCESS_LOG.isEnabledFor(logging.INFO):
                log_event(
                    _ACCESS_LOG, logging.INFO, "request", api=api, model=model, status=status.name,
                    milliseconds=round(seconds * 1000, 3), client=call.peer(),
                )  # fmt: skip


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio has no types
    """Handlers by path."""

    def __init__(self, handlers: dict[str, DeferredHandler]) -> None:
        self._handlers = handlers

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> DeferredHandler | None:
        """Return the handler of a method; None if there is none."""
        return self._handlers.get(handler_call_details.method)


def _methods(core: ServerCore) -> dict[str, dict[str, tuple[Method, type[Any]]]]:
    prediction, models, inference = (
        PredictionService(core),
        ModelService(core),
        InferenceService(core),
    )
    return {
        prediction_service.SERVICE: {
            "Predict": (prediction.predict, proto.PredictRequest),
            "Classify": (prediction.classify, proto.ClassificationRequest),
            "Regress": (prediction.regress, proto.RegressionRequest),
            "MultiInference": (prediction.multi_inference, proto.MultiInferenceRequest),
            "GetModelMetadata": (prediction.get_model_metadata, proto.GetModelMetadataRequest),
        },
        model_service.SERVICE: {
            "GetModelStatus": (models.get_model_status, proto.GetModelStatusRequest),
            "HandleReloadConfigRequest": (
                models.handle_reload_config_request,
                proto.ReloadConfigRequest,
            ),
        },
        inference_service.SERVICE: {
            "ServerLive": (inference.server_live, proto.ServerLiveRequest),
            "ServerReady": (inference.server_ready, proto.ServerReadyRequest),
            "ModelReady": (inference.model_ready, proto.ModelReadyRequest),
            "ServerMetadata": (inference.server_metadata, proto.ServerMetadataRequest),
            "ModelMetadata": (inference.model_metadata, proto.ModelMetadataRequest),
            "ModelInfer": (inference.model_infer, proto.ModelInferRequest),
        },
    }


def _model_of(request: Any) -> str:
    """Return the name of the model that a request is for; "" for none."""
    spec = getattr(request, "model_spec", None)
    if spec is not None:
        return str(spec.name)
    return str(getattr(request, "model_name", "") or getattr(request, "name", ""))
