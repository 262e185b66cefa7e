"""The names of a cluster's actors in Ray."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from graphmill.errors import InvalidArgumentError, NotFoundError

if TYPE_CHECKING:
    from typing import Any

    from graphmill_plugins.distributed.ray.directory import Table
    from graphmill_plugins.distributed.ray.engine import Engine

ANSWER_SECONDS: Final = 30.0
"""Seconds that the directory may take to respond; it may be restarting."""
DIRECTORY: Final = "directory"
SCHEME: Final = "ray-cluster"

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]+")
_TARGET: Final = re.compile(
    rf"{SCHEME}://(?P<name>{_NAME.pattern})(?:/(?P<job>{_NAME.pattern})/(?P<index>\d+))?"
)


def namespace_of(cluster: str) -> str:
    """Return the namespace of a cluster's actors, which is also its placement group's name.

    Raises:
        InvalidArgumentError: the name of the cluster is malformed.
    """
    if _NAME.fullmatch(cluster) is None:
        raise InvalidArgumentError(
            f"malformed cluster name: {cluster!r}; expected letters, digits, '-', '_' and '.'"
        )
    return f"graphmill/{cluster}"


def task_actor(job: str, index: int) -> str:
    """Return the name of a task's actor."""
    return f"{job}:{index}"


def target_of(cluster: str, job: str | None = None, index: int = 0) -> str:
    """Return the target of sessions on a cluster, which follows the tasks' addresses."""
    task = "" if job is None else f"/{job}/{index}"
    return f"{SCHEME}://{cluster}{task}"


def parse_target(target: str) -> tuple[str, str | None, int]:
    """Return the cluster, the job and the task index in a target.

    Raises:
        InvalidArgumentError: it is malformed.
    """
    parts = _TARGET.fullmatch(target)
    if parts is None:
        raise InvalidArgumentError(
            f"malformed target {target!r}; expected {SCHEME}://CLUSTER or "
            f"{SCHEME}://CLUSTER/JOB/TASK, such as {SCHEME}://training/worker/0"
        )
    return parts["name"], parts["job"], int(parts["index"] or 0)


def first_task(jobs: dict[str, int]) -> tuple[str, int]:
    """Return the default task of sessions: the chief, else a worker."""
    ranked = sorted(jobs, key=lambda job: (_RANKS.get(job, len(_RANKS)), job))
    return ranked[0], 0


def find_directory(engine: Engine, cluster: str) -> Any:
    """Return the directory of a cluster.

    Raises:
        NotFoundError: no cluster of that name is running.
    """
    try:
        return engine.find_actor(DIRECTORY, namespace_of(cluster))
    except NotFoundError as error:
        raise NotFoundError(
            f"no cluster {cluster!r} is running on Ray; start_cluster(..., name={cluster!r}) "
            "starts it"
        ) from error


def read_table(engine: Engine, directory: Any) -> Table:
    """Return the table of a directory.

    Raises:
        DeadlineExceededError: it does not answer.
    """
    table: Table = engine.call(directory, "exchange", None, None, 0.0).result(ANSWER_SECONDS)
    return table


_RANKS: Final = {"chief": 0, "master": 1, "worker": 2}
