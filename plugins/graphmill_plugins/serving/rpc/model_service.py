"""TensorFlow Serving's ModelService: report the states of models, and replace the models.

Semantics: model_service_impl.cc and get_model_status_impl.cc of TensorFlow Serving.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from graphmill.errors import InvalidArgumentError, OpError, PermissionDeniedError
from graphmill.spi.protos import proto
from graphmill_plugins.serving.models.model_settings import settings_of_config
from graphmill_plugins.serving.requests.model_metadata import version_statuses

if TYPE_CHECKING:
    from graphmill_plugins.serving.requests.server_core import ServerCore

SERVICE: Final = "tensorflow.serving.ModelService"


class ModelService:
    """The methods of the service; each takes a request and the deadline of its client.

    Args:
        core: the state of the server.
    """

    def __init__(self, core: ServerCore) -> None:
        self._core = core

    async def get_model_status(
        self, request: proto.GetModelStatusRequest, deadline: float | None
    ) -> proto.GetModelStatusResponse:
        """Answer GetModelStatus."""
        del deadline
        if not request.HasField("model_spec"):
            raise InvalidArgumentError("Missing ModelSpec")
        spec = request.model_spec
        choice = spec.WhichOneof("version_choice")
        versions = self._core.manager.statuses(
            spec.name,
            spec.version.value if choice == "version" else None,
            spec.version_label if choice == "version_label" else None,
        )
        return proto.GetModelStatusResponse(model_version_status=version_statuses(versions))

    async def handle_reload_config_request(
        self, request: proto.ReloadConfigRequest, deadline: float | None
    ) -> proto.ReloadConfigResponse:
        """Answer HandleReloadConfigRequest."""
        del deadline
        if not self._core.options.allow_reload:
            raise PermissionDeniedError(
                "this server does not let clients change its models; start it with --allow-reload "
                "to allow that"
            )
        if request.metric_names:
            raise InvalidArgumentError(
                "metric_names is not supported; the metrics are at /metrics over HTTP"
            )
        response = proto.ReloadConfigResponse()
        response.status.SetInParent()
        try:
            settings = settings_of_config(request.config, "the request")
            await self._core.manager.reload(settings)
        except OpError as error:
            response.status.error_code = error.code  # type: ignore[assignment]
            response.status.error_message = error.message
        return response
