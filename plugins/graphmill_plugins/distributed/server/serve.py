"""`graphmill serve`: run the server of a task as a process."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import click

from graphmill.errors import InvalidArgumentError
from graphmill.spi.cluster import (
    Server,
    Settings,
    TFConfigClusterResolver,
    as_message,
    common_options,
)
from graphmill.spi.protos import proto
from graphmill_plugins._server.address import Address
from graphmill_plugins._server.event_log import (
    FORMATS,
    LEVELS,
    log_event,
    stop_writing,
    write_events,
)
from graphmill_plugins._server.ready_line import print_ready
from graphmill_plugins._server.stop_signals import stop_signal
from graphmill_plugins.distributed.monitoring.metrics_endpoint import SETTING

_JOB = "localhost"
_log = logging.getLogger("graphmill.server")


@click.command()
@click.option(
    "--cluster",
    help='The addresses of all tasks by job, as JSON or the name of a JSON file: \'{"worker": '
    '["127.0.0.1:7001"]}\'. Default: the cluster of TF_CONFIG, or one task on its own.',
)
@click.option("--job", help="The job of this task.")
@click.option("--task", type=click.IntRange(min=0), help="The index of this task in its job.")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help=(
        "Without a cluster: the address to listen on. Anyone who can reach it can run any program."
    ),
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="Without a cluster: the port to listen on; 0 for a free one.",
)
@click.option(
    "--config", help="The default ConfigProto of sessions, as JSON or the name of a JSON file."
)
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    help="The seconds that running calls may continue after SIGTERM or SIGINT.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help=(
        "Offer metrics for Prometheus at http://HOST:PORT/metrics; 0 for a free port, which "
        "is logged."
    ),
)
@click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    default="warning",
    show_default=True,
    help="The log level on stderr: info logs sessions, debug also each call.",
)
@click.option(
    "--log-format",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    help="The format of log lines.",
)
@click.option(
    "--allow",
    multiple=True,
    metavar="RULE",
    help="Let clients' graphs do this: fs.read:DIR, fs.list:DIR, fs.write:DIR, net, process or "
    "python; may be repeated. Paths are those of this machine.",
)
@click.option(
    "--trust",
    is_flag=True,
    help="Let graphs of clients do everything that this process may do, as for a cluster that "
    "trains and whose clients are your own.",
)
@common_options
@click.make_pass_decorator(Settings, ensure=True)
def serve(
    settings: Settings,
    /,
    *,
    cluster: str | None,
    job: str | None,
    task: int | None,
    host: str,
    port: int,
    config: str | None,
    grace: float,
    metrics_port: int | None,
    log_level: str,
    log_format: str,
    allow: tuple[str, ...],
    trust: bool,
) -> None:
    """Serve sessions to other processes in TensorFlow's protocol, over gRPC.

    Graphs of clients may do nothing besides computing, unless --allow or --trust says so.

    Prints one line, READY HOST:PORT, when it accepts calls. After SIGTERM or SIGINT, running calls
    may finish, and the process ends with exit code 0; a second signal ends it immediately.
    """
    addresses, job, task = _task(cluster, job, task, str(Address(host, port)))
    handler = write_events(log_level, log_format)
    full_config = _config(config, metrics_port)
    server = Server(
        addresses, job, task, config=full_config, allow=allow or None, trust=trust or None
    )
    address = server.target.removeprefix("grpc://")
    with stop_signal() as stop:
        try:
            log_event(_log, logging.INFO, "ready", address=address)
            print_ready([address], as_json=settings.as_json)
            stop.wait()
        finally:
            server.stop(grace)
    log_event(_log, logging.INFO, "stopped", address=address)
    stop_writing(handler)


def _config(text: str | None, metrics_port: int | None) -> Any:
    """Return the default config of sessions, with the port for metrics among the settings."""
    config = as_message(proto.ConfigProto, _json(text, "--config"), "config")
    if metrics_port is not None:
        settings = config.graph_options.rewrite_options.custom_optimizers.add(name="distributed")
        settings.parameter_map[SETTING].i = metrics_port
    return config


def _task(
    cluster: str | None, job: str | None, task: int | None, address: str
) -> tuple[Any, str | None, int | None]:
    """Return the cluster, and the task of this process.

    Raises:
        InvalidArgumentError: the cluster is malformed.
    """
    if cluster is not None:
        return _json(cluster, "--cluster"), job, task
    if os.environ.get("TF_CONFIG"):
        resolver = TFConfigClusterResolver()
        return (
            resolver.cluster_spec(),
            resolver.task_type if job is None else job,
            resolver.task_id if task is None else task,
        )
    job, task = job or _JOB, task or 0
    return {job: {task: address}}, job, task


def _json(text: str | None, option: str) -> Any:
    """Parse an object from JSON text or a JSON file; None for None.

    Raises:
        InvalidArgumentError: it is neither.
    """
    if text is None:
        return None
    if not text.lstrip().startswith("{"):
        try:
            text = Path(text).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise InvalidArgumentError(
                f"{option} is neither a JSON object nor a file that can be read: {error}"
            ) from error
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidArgumentError(f"{option} is not JSON: {error}") from error
