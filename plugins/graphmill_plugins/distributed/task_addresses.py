"""The addresses of a cluster's tasks, and how moves to new addresses are handled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import AbortedError

if TYPE_CHECKING:
    from graphmill.spi.protos import proto


def task_name(job: str, index: int) -> str:
    """Return the full name of a task, `/job:worker/replica:0/task:0`."""
    return f"/job:{job}/replica:0/task:{index}"


def addresses_of(cluster: proto.ClusterDef) -> dict[str, str]:
    """Return the addresses of a cluster by the names of its tasks."""
    return {
        task_name(job.name, index): job.tasks[index]
        for job in cluster.job
        for index in sorted(job.tasks)
    }


def lost_task(task: str, address: str | None) -> AbortedError:
    """Return what becomes of calls to a task whose process is another one now.

    Args:
        task: its name.
        address: where it is now; None if it is not there any more.
    """
    where = "is not in the cluster any more" if address is None else f"was restarted at {address}"
    return AbortedError(
        f"{task} {where}: the graphs that were registered there are lost. Start a new session"
    )
