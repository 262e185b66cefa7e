"""The addresses of a cluster's tasks, and the errors of calls to tasks that have moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphmill.errors import AbortedError

if TYPE_CHECKING:
    from graphmill.spi.protos import proto


def task_name(job: str, index: int) -> str:
    """Return the full name of a task, `/job:worker/replica:0/task:0`."""
    return f"/job:{job}/replica:0/task:{index}"


def addresses_of(cluster: proto.ClusterDef) -> dict[str, str]:
    """Return the addresses of a cluster by task name."""
    return {
        task_name(job.name, index): job.tasks[index]
        for job in cluster.job
        for index in sorted(job.tasks)
    }


def collective_leader(server_def: proto.ServerDef) -> str:
    """Return the task that leads the groups of collectives.

    Without `experimental.collective_group_leader` in the server's config, that is the first task of
    job `chief`, else of job `worker`, else of the cluster.
    """
    leader: str = server_def.default_session_config.experimental.collective_group_leader
    if leader:
        return leader
    jobs = {job.name: min(job.tasks) for job in server_def.cluster.job if job.tasks}
    if not jobs:
        return task_name(server_def.job_name, server_def.task_index)
    first = next((name for name in ("chief", "worker") if name in jobs), min(jobs))
    return task_name(first, jobs[first])


def lost_task(task: str, address: str | None) -> AbortedError:
    """Return the error of calls to a task whose process was replaced.

    Args:
        task: its name.
        address: its new address; None if it no longer exists.
    """
    where = "is no longer in the cluster" if address is None else f"was restarted at {address}"
    return AbortedError(
        f"{task} {where}: the graphs that were registered there are lost. Start a new session"
    )
