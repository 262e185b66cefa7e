"""`ServerOptions`: the addresses, limits and timeouts of a server of models."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphmill_plugins.serving.requests.batching_options import DEFAULT_ROWS, BatchingOptions

if TYPE_CHECKING:
    from graphmill_plugins.serving.models.model_settings import ModelSettings


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The options of a server of models.

    Attributes:
        models: the models to serve, unless `config_file` names them.
        config_file: the path of a `ModelServerConfig` in text form; read again when it changes.
        host: the address to listen on.
        http_port: the port of the APIs over HTTP, 0 for a free one; None for no HTTP.
        grpc_port: the port of the APIs over gRPC, 0 for a free one; None for no gRPC.
        batching: how requests are queued, and the sizes of batches.
        batches: whether requests are combined into batches; None to do so for signatures whose
            rows are proven to be independent (`graphmill.spi.models.why_rows_mix`).
        poll_seconds: how often the folders of models are listed; 0 for only once.
        timeout_seconds: how long a request may take after it has been received.
        receive_seconds: how long a client may take to send a request.
        keep_alive_seconds: how long an idle connection stays open.
        max_request_bytes: the largest body of a request.
        max_pending_bytes: how many bytes the bodies of all requests in progress may have together.
        max_connections: how many HTTP connections may be open.
        allow_reload: whether clients may replace the models by HandleReloadConfigRequest.
        allow, trust: what models may do besides computing; see `load`.
        tags: the tags of the MetaGraph to serve, separated by commas; None for the usual one.
    """

    models: tuple[ModelSettings, ...] = ()
    config_file: str | None = None
    host: str = "127.0.0.1"
    http_port: int | None = 0
    grpc_port: int | None = None
    batching: BatchingOptions = field(default_factory=lambda: BatchingOptions.of_rows(DEFAULT_ROWS))
    batches: bool | None = None
    poll_seconds: float = 1.0
    timeout_seconds: float = 30.0
    receive_seconds: float = 30.0
    keep_alive_seconds: float = 75.0
    max_request_bytes: int = 64 << 20
    max_pending_bytes: int = 512 << 20
    max_connections: int = 1000
    allow_reload: bool = False
    allow: tuple[str, ...] = ()
    trust: bool | None = None
    tags: str | None = None
