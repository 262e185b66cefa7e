"""`GrpcModelServer`: the APIs over gRPC, on an event loop that is already running."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from graphmill.errors import OpError, UnavailableError
from graphmill.spi.protos import proto
from graphmill_plugins._server.event_log import log_event
from graphmill_plugins._server.status import grpc_status
from graphmill_plugins.serving.requests.error_text import bounded_text
from graphmill_plugins.serving.rpc import inference_service, model_service, prediction_service
from graphmill_plugins.serving.rpc.inference_service import InferenceService
from graphmill_plugins.serving.rpc.model_service import ModelService
from graphmill_plugins.serving.rpc.prediction_service import PredictionService

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from graphmill_plugins._server.address import Address
    from graphmill_plugins.serving.requests.server_core import ServerCore

    Method = Callable[[Any, float | None], Awaitable[Any]]

_ACCESS_LOG: Final = logging.getLogger("graphmill.serving.access")
_log = logging.getLogger("graphmill.serving")
_RESPONSE_SIZE: Final = -1  # no limit: the model decides


class GrpcModelServer:
    """Answers gRPC calls.

    Args:
        core: the state of the server.

    Threads: all methods are for that of the event loop.
    """

    def __init__(self, core: ServerCore) -> None:
        self._core = core
        options = core.options
        self._server = grpc.aio.server(
            options=(
                ("grpc.max_receive_message_length", options.max_request_bytes),
                ("grpc.max_send_message_length", _RESPONSE_SIZE),
                ("grpc.so_reuseport", 0),
                # A client whose connection is silent for that long is gone.
                ("grpc.keepalive_time_ms", round(options.keep_alive_seconds * 1000)),
                ("grpc.keepalive_timeout_ms", round(options.receive_seconds * 1000)),
            ),
            maximum_concurrent_rpcs=options.max_connections,
        )
        self._health = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        handlers = [
            grpc.method_handlers_generic_handler(service, self._handlers(methods))
            for service, methods in _methods(core).items()
        ]
        self._server.add_generic_rpc_handlers(tuple(handlers))

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
        await self._server.start()
        for name in ("", prediction_service.SERVICE, inference_service.SERVICE):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        return port

    async def stop(self, grace: float) -> None:
        """Refuse new calls; those in progress may take `grace` seconds."""
        await self._health.enter_graceful_shutdown()
        await self._server.stop(grace)

    def _handlers(
        self, methods: dict[str, tuple[Method, type[Any]]]
    ) -> dict[str, grpc.RpcMethodHandler]:
        return {
            name: grpc.unary_unary_rpc_method_handler(
                self._handler(name, method),
                request_deserializer=request_type.FromString,
                response_serializer=_serialize,
            )
            for name, (method, request_type) in methods.items()
        }

    def _handler(self, name: str, method: Method) -> Callable[[Any, Any], Awaitable[Any]]:
        core, metrics = self._core, self._core.metrics
        api = f"grpc/{name}"

        async def handle(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
            started = time.perf_counter()
            remaining = context.time_remaining()
            deadline = None if remaining is None else time.monotonic() + remaining
            metrics.in_flight += 1
            status = "CANCELLED"  # unless it ends in another way
            try:
                response = await method(request, deadline)
                status = "OK"
                return response
            except OpError as error:
                code, message = grpc_status(error)
                status = code.name
                await context.abort(code, bounded_text(message))
            except Exception as error:  # noqa: BLE001 - logged, and answered
                status = "INTERNAL"
                _log.exception("request failed")
                text = f"the server failed: {type(error).__name__}"
                await context.abort(grpc.StatusCode.INTERNAL, text)
            finally:
                metrics.in_flight -= 1
                seconds = time.perf_counter() - started
                model = _model_of(request)
                metrics.count(model if core.manager.is_known(model) else "", api, status, seconds)
                if _ACCESS_LOG.isEnabledFor(logging.INFO):
                    log_event(
                        _ACCESS_LOG, logging.INFO, "request", api=api, model=model, status=status,
                        milliseconds=round(seconds * 1000, 3), client=context.peer(),
                    )  # fmt: skip

        return handle


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


def _serialize(message: Any) -> bytes:
    data: bytes = message.SerializeToString()
    return data
