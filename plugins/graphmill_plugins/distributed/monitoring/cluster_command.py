"""`graphmill cluster status`: show the state of a cluster's tasks."""

from __future__ import annotations

from typing import Any

import click

from graphmill.errors import UnimplementedError
from graphmill.spi import install_command
from graphmill.spi.cluster import Settings, Table, common_options, emit

_COUNTS = ("sessions", "worker_sessions", "registered_graphs", "running_steps", "steps")


@click.group()
def cluster() -> None:
    """Inspect a running cluster."""


@cluster.command()
@click.argument("target")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    show_default=True,
    help="Timeout in seconds for each task's response.",
)
@common_options
@click.make_pass_decorator(Settings, ensure=True)
def status(settings: Settings, target: str, timeout: float) -> None:
    """Show state, devices, sessions and graphs of all tasks of the cluster of TARGET.

    TARGET is grpc://HOST:PORT of any of its tasks; "last heartbeat" is how many seconds ago that
    task last received a message from each of the others.
    """
    try:
        from graphmill_plugins.distributed.monitoring.status_client import cluster_status
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "grpc":
            raise
        raise UnimplementedError(
            f"the status of a cluster needs the package grpc: {install_command('grpc')}"
        ) from error
    target = target if "://" in target else f"grpc://{target}"
    tasks = cluster_status(target, timeout)
    emit({"tasks": tasks}, _blocks(tasks), as_json=settings.as_json)


def _blocks(tasks: list[dict[str, Any]]) -> list[Table | str]:
    heartbeats = tasks[0].get("last_heartbeats", {})
    table = Table(
        ("task", "address", "state", "software", "devices", "sessions", "worker sessions",
         "graphs", "running", "steps", "last heartbeat")
    )  # fmt: skip
    for task in tasks:
        ago = heartbeats.get(task["task"])
        table.rows.append(
            (
                task["task"],
                task["address"],
                task["state"],
                task.get("software", "-"),
                len(task.get("devices", ())),
                *(task.get(name, "-") for name in _COUNTS),
                "-" if ago is None else f"{ago:.1f} s ago",
            )
        )
    errors = [f"{task['task']}: {task['error']}" for task in tasks if "error" in task]
    return [table, *(["\n".join(errors)] if errors else [])]
