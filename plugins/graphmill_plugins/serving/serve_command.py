"""`graphmill serve-model`: serve SavedModels over HTTP and gRPC."""

from __future__ import annotations

import logging
from dataclasses import replace

import click

from graphmill.errors import InvalidArgumentError
from graphmill.spi.cluster import Settings, common_options
from graphmill.spi.models import allow_option, tags_option, trust_option
from graphmill_plugins._server.event_log import (
    FORMATS,
    LEVELS,
    log_event,
    stop_writing,
    write_events,
)
from graphmill_plugins._server.ready_line import print_ready
from graphmill_plugins._server.stop_signals import stop_signal
from graphmill_plugins.serving.models.model_settings import ModelSettings, settings_of_path
from graphmill_plugins.serving.requests.batching_options import DEFAULT_ROWS, BatchingOptions
from graphmill_plugins.serving.server_options import ServerOptions

_DEFAULTS = ServerOptions()
_MEGABYTE = 1 << 20
_OTHER_LOGGERS = ("uvicorn", "asyncio")
_log = logging.getLogger("graphmill.serving")
_PORT = click.IntRange(0, 65535)


@click.command("serve-model")
@click.argument("models", nargs=-1, type=click.Path(), metavar="[MODEL]...")
@click.option("--name", help="The name of the only MODEL; by default that of its folder.")
@click.option(
    "--model-config-file", "--model_config_file", "config_file", metavar="FILE",
    help="Instead of MODEL: a ModelServerConfig of TensorFlow Serving as text. It is read again "
    "when it changes.",
)  # fmt: skip
@click.option("--host", default=_DEFAULTS.host, show_default=True, help="The address to listen on.")
@click.option(
    "--port", "--rest_api_port", type=_PORT, default=8501, show_default=True,
    help="The port of the APIs over HTTP; 0 for a free one.",
)  # fmt: skip
@click.option(
    "--grpc-port", type=_PORT,
    help="Also offer the APIs over gRPC at this port; 0 for a free one.",
)  # fmt: skip
@click.option(
    "--batching/--no-batching", "--enable_batching", default=None,
    help="Combine requests into batches, or never; by default where the graph shows that no output "
    "depends on other examples.",
)  # fmt: skip
@click.option(
    "--max-batch-size", type=click.IntRange(min=2),
    help=f"The maximum number of rows of a batch (default: {DEFAULT_ROWS}).",
)  # fmt: skip
@click.option(
    "--batching-parameters-file", "--batching_parameters_file", "batching_file", metavar="FILE",
    help="BatchingParameters of TensorFlow Serving as text.",
)  # fmt: skip
@click.option(
    "--threads", type=click.IntRange(min=1),
    default=_DEFAULTS.batching.num_threads, show_default=True,
    help="The maximum number of requests, or batches, of a model that run at once.",
)  # fmt: skip
@click.option(
    "--max-queued", type=click.IntRange(min=1), default=_DEFAULTS.batching.max_queued_requests,
    show_default=True,
    help="The maximum number of requests that wait for a signature; 429 beyond it.",
)  # fmt: skip
@click.option(
    "--timeout", type=click.FloatRange(min=0.001), default=_DEFAULTS.timeout_seconds,
    show_default=True, help="The seconds that a request may take; 504 beyond that.",
)  # fmt: skip
@click.option(
    "--receive-timeout", type=click.FloatRange(min=0.001), default=_DEFAULTS.receive_seconds,
    show_default=True, help="The seconds that a client may take to send a request.",
)  # fmt: skip
@click.option(
    "--max-request-mb", type=click.FloatRange(min=0.001),
    default=_DEFAULTS.max_request_bytes / _MEGABYTE, show_default=True,
    help="The largest request in MiB; larger ones are answered 413.",
)  # fmt: skip
@click.option(
    "--max-pending-mb", type=click.FloatRange(min=0.001),
    default=_DEFAULTS.max_pending_bytes / _MEGABYTE, show_default=True,
    help="The total size in MiB of all requests in progress; 429 beyond it.",
)  # fmt: skip
@click.option(
    "--max-connections", type=click.IntRange(min=1), default=_DEFAULTS.max_connections,
    show_default=True, help="The maximum number of open connections; more are answered 503.",
)  # fmt: skip
@click.option(
    "--poll", type=click.FloatRange(min=0), default=_DEFAULTS.poll_seconds, show_default=True,
    help="The seconds between two searches for new versions; 0 for none.",
)  # fmt: skip
@click.option(
    "--grace", type=click.FloatRange(min=0), default=30.0, show_default=True,
    help="The seconds that requests in progress may take after SIGTERM or SIGINT.",
)  # fmt: skip
@click.option(
    "--allow-reload", is_flag=True,
    help="Let clients replace the models by HandleReloadConfigRequest (gRPC).",
)  # fmt: skip
@click.option(
    "--log-level", type=click.Choice(LEVELS), default="warning", show_default=True,
    help="The log level on stderr: info logs each request and each model.",
)  # fmt: skip
@click.option(
    "--log-format", type=click.Choice(FORMATS), default="text", show_default=True,
    help="The format of log lines.",
)  # fmt: skip
@tags_option
@allow_option
@trust_option
@common_options
@click.make_pass_decorator(Settings, ensure=True)
def serve_model(
    settings: Settings,
    /,
    *,
    models: tuple[str, ...],
    name: str | None,
    config_file: str | None,
    host: str,
    port: int,
    grpc_port: int | None,
    batching: bool | None,
    max_batch_size: int | None,
    batching_file: str | None,
    threads: int,
    max_queued: int,
    timeout: float,
    receive_timeout: float,
    max_request_mb: float,
    max_pending_mb: float,
    max_connections: int,
    poll: float,
    grace: float,
    allow_reload: bool,
    log_level: str,
    log_format: str,
    tags: str | None,
    allow: tuple[str, ...],
    trust: bool,
) -> None:
    """Serve SavedModels in TensorFlow Serving's protocols and the Open Inference Protocol.

    MODEL is the folder of a SavedModel, or a folder with a sub-folder for each version (1, 2, …),
    the highest of which is served, also when it appears later.

    Prints READY and the addresses when requests are answered. After SIGTERM or SIGINT, requests in
    progress may finish, and the process ends with exit code 0; a second signal ends it immediately.

    For example: graphmill serve-model digits --port 8501
    """
    options = ServerOptions(
        models=_settings(models, name, config_file),
        config_file=config_file,
        host=host,
        http_port=port,
        grpc_port=grpc_port,
        batching=_batching(batching, max_batch_size, batching_file, threads, max_queued),
        batches=batching,
        poll_seconds=poll,
        timeout_seconds=timeout,
        receive_seconds=receive_timeout,
        max_request_bytes=round(max_request_mb * _MEGABYTE),
        max_pending_bytes=round(max_pending_mb * _MEGABYTE),
        max_connections=max_connections,
        allow_reload=allow_reload,
        allow=allow,
        trust=trust or None,
        tags=tags,
    )
    handler = write_events(log_level, log_format, _OTHER_LOGGERS)
    try:
        _serve(options, grace, as_json=settings.as_json)
    finally:
        stop_writing(handler, _OTHER_LOGGERS)


def _serve(options: ServerOptions, grace: float, *, as_json: bool) -> None:
    from graphmill_plugins.serving.model_server import ModelServer

    with stop_signal() as stop:
        server = ModelServer(options)
        try:
            addresses = [f"http://{server.http_address}"]
            if server.grpc_address is not None:
                addresses.append(f"grpc://{server.grpc_address}")
            log_event(_log, logging.INFO, "ready", addresses=addresses)
            print_ready(addresses, as_json=as_json)
            stop.wait()
            log_event(_log, logging.INFO, "draining", grace_seconds=grace)
        finally:
            server.stop(grace)
    log_event(_log, logging.INFO, "stopped")


def _settings(
    models: tuple[str, ...], name: str | None, config_file: str | None
) -> tuple[ModelSettings, ...]:
    if bool(models) == (config_file is not None):
        raise click.UsageError(
            "give either MODEL or --model-config-file", click.get_current_context()
        )
    if name is not None and len(models) != 1:
        raise click.UsageError("--name is for a single MODEL", click.get_current_context())
    settings = tuple(settings_of_path(path, name) for path in models)
    names = [model.name for model in settings]
    repeated = next((model for model in names if names.count(model) > 1), None)
    if repeated is not None:
        raise InvalidArgumentError(
            f"two models have the name {repeated!r}; name them in a --model-config-file"
        )
    return settings


def _batching(
    is_enabled: bool | None, max_rows: int | None, path: str | None, threads: int, max_queued: int
) -> BatchingOptions:
    if is_enabled is False and (max_rows is not None or path is not None):
        raise click.UsageError(
            "--max-batch-size and --batching-parameters-file contradict --no-batching",
            click.get_current_context(),
        )
    options = BatchingOptions.of_rows(
        max_rows or DEFAULT_ROWS, num_threads=threads, max_queued_requests=max_queued
    )
    if path is None:
        return options
    options = BatchingOptions.read(path, replace(options, allowed_batch_sizes=()))
    return options if max_rows is None else replace(options, max_batch_size=max_rows)
