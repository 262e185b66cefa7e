"""`ClusterResolver`: find the addresses of a cluster's tasks in their environment.

Semantics: `tf.distribute.cluster_resolver`; `TF_CONFIG` is that of TensorFlow's estimators and
strategies. A resolver returns addresses; it starts nothing.
"""

from __future__ import annotations

import json
import os
import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeAlias

from graphmill.distributed.cluster_change import Watchers, change_between
from graphmill.errors import InvalidArgumentError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from graphmill.distributed.cluster_change import ClusterChange, Task

ClusterSpec: TypeAlias = "dict[str, dict[int, str]]"
"""The address `HOST:PORT` of each task, by job and task index."""


class ClusterResolver(ABC):
    """Resolves the addresses of a cluster's tasks, and the task of this process.

    Attributes:
        task_type: the job of this process; None if it is not a task.
        task_id: its index in the job; None if it is not a task.
    """

    task_type: str | None = None
    task_id: int | None = None

    def __init__(self) -> None:
        self._watchers = Watchers()

    @abstractmethod
    def cluster_spec(self) -> ClusterSpec:
        """Return the current addresses.

        Raises:
            OpError: they are unknown.
        """

    def master(self, task_type: str | None = None, task_id: int | None = None) -> str:
        """Return the target of sessions on a task; by default on the task of this process.

        Raises:
            NotFoundError: there is no such task.
        """
        job = self.task_type if task_type is None else task_type
        index = self.task_id if task_id is None else task_id
        tasks = self.cluster_spec().get(job or "", {})
        if index not in tasks:
            raise NotFoundError(f"the cluster has no task {index} of job {job!r}")
        return f"grpc://{tasks[index]}"

    def watch(self, changed: Callable[[ClusterChange], None]) -> Callable[[], None]:
        """Call `changed` when tasks move or restart; return a function that ends the watch.

        It is called in any thread, one call after the other. A task that moved or restarted has a
        new incarnation: what was registered on the old one is gone.
        """
        return self._watchers.add(changed)

    def refresh(self) -> None:  # noqa: B027 - not abstract: many do nothing
        """Check whether the addresses have changed, and notify the observers.

        A resolver that is notified of changes does nothing here.

        Raises:
            OpError: the addresses are unknown.
        """


class SimpleClusterResolver(ClusterResolver):
    """A cluster with explicit addresses, which `update` replaces.

    Args:
        cluster: addresses by job: a list, or a dict by task index.
        task_type, task_id: job and index of the task of this process; None if it is no task.

    Raises:
        InvalidArgumentError: the cluster is malformed, or lacks the task.
    """

    def __init__(
        self,
        cluster: Mapping[str, Any],
        task_type: str | None = None,
        task_id: int | None = None,
    ) -> None:
        super().__init__()
        self._spec = spec_of(cluster)
        self.task_type, self.task_id = task_type, task_id
        if task_type is not None and task_id not in self._spec.get(task_type, {}):
            raise InvalidArgumentError(f"the cluster has no task {task_id} of job {task_type!r}")

    def cluster_spec(self) -> ClusterSpec:
        """Return the addresses."""
        return {job: dict(tasks) for job, tasks in self._spec.items()}

    def update(self, cluster: Mapping[str, Any], restarted: Iterable[Task] = ()) -> None:
        """Replace the addresses, and notify the observers.

        Args:
            cluster: the addresses of all tasks.
            restarted: tasks, such as `("worker", 0)`, that have a new incarnation at an unchanged
                address.

        Raises:
            InvalidArgumentError: the cluster is malformed, or lacks the task of this process.
        """
        spec = spec_of(cluster)
        if self.task_type is not None and self.task_id not in spec.get(self.task_type, {}):
            raise InvalidArgumentError(
                f"the new cluster has no task {self.task_id} of job {self.task_type!r}, the task "
                "of this process"
            )
        before, self._spec = self._spec, spec
        self._watchers.publish(change_between(before, spec, restarted))


class TFConfigClusterResolver(SimpleClusterResolver):
    """The cluster that the environment variable `TF_CONFIG` describes.

    It is JSON: `{"cluster": {"worker": ["HOST:PORT", ...]}, "task": {"type": "ps", "index": 0}}`

    Args:
        environment: the environment; by default that of the process.

    Raises:
        NotFoundError: the variable is not set.
        InvalidArgumentError: it is malformed.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = os.environ if environment is None else environment
        super().__init__(*_tf_config(self._environment))

    def refresh(self) -> None:
        """Read the variable again, and notify the observers if it names other addresses."""
        self.update(_tf_config(self._environment)[0])


class SlurmClusterResolver(SimpleClusterResolver):
    """The tasks of a Slurm job step, assigned to jobs in the order of their ranks.

    Args:
        jobs: the number of tasks of each job, in order of ranks; by default all are workers.
        port_base: the port of the first task on each node; the next task has the next port.
        environment: the environment with Slurm's variables; by default that of the process.

    Raises:
        NotFoundError: the process was not started by `srun`.
        InvalidArgumentError: the variables are malformed, or the jobs need more tasks than Slurm
            started.
    """

    def __init__(
        self,
        jobs: Mapping[str, int] | None = None,
        port_base: int = 8888,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._environment = os.environ if environment is None else environment
        self._jobs, self._port_base = jobs, port_base
        super().__init__(*_slurm_tasks(jobs, port_base, self._environment))

    def refresh(self) -> None:
        """Read the variables again, and notify the observers if they name other nodes."""
        self.update(_slurm_tasks(self._jobs, self._port_base, self._environment)[0])


class KubernetesClusterResolver(SimpleClusterResolver):
    """Pods with stable names: of a StatefulSet or an Indexed Job with a headless service.

    The pod of task N of a job is `JOB-N.SUBDOMAIN`. A restarted pod keeps its name, so addresses
    change only when jobs are scaled, which `update` reports.

    Args:
        jobs: the number of tasks of each job.
        subdomain: name of the headless service, with its namespace if that is another one.
        port: the port of all tasks.
        environment: the environment with the pod's name (`HOSTNAME`); by default that of the
            process.

    Raises:
        InvalidArgumentError: the pod's name has a task index that the job does not have.
    """

    def __init__(
        self,
        jobs: Mapping[str, int],
        subdomain: str,
        port: int = 8888,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        cluster = {
            job: {index: f"{job}-{index}.{subdomain}:{port}" for index in range(count)}
            for job, count in jobs.items()
        }
        name = (os.environ if environment is None else environment).get("HOSTNAME", "")
        job, _, index = name.partition(".")[0].rpartition("-")
        is_task = job in jobs and index.isdecimal()
        super().__init__(cluster, *((job, int(index)) if is_task else (None, None)))


def spec_of(cluster: Mapping[str, Any]) -> ClusterSpec:
    """Return the addresses of a user's cluster description, by job and task index.

    Raises:
        InvalidArgumentError: it is malformed.
    """
    from graphmill.distributed.server import cluster_def_of

    return {job.name: dict(job.tasks) for job in cluster_def_of(cluster).job}


def _tf_config(environment: Mapping[str, str]) -> tuple[dict[str, Any], str | None, int | None]:
    """Return the cluster that `TF_CONFIG` describes, and the task of this process."""
    text = environment.get("TF_CONFIG")
    if not text:
        raise NotFoundError("the environment variable TF_CONFIG is not set")
    try:
        content = json.loads(text)
    except ValueError as error:
        raise InvalidArgumentError(f"TF_CONFIG is not JSON: {error}") from error
    if not isinstance(content, dict) or not isinstance(content.get("cluster"), dict):
        raise InvalidArgumentError('TF_CONFIG has no "cluster": {JOB: [ADDRESS, ...]}')
    task = content.get("task") or {}
    if not isinstance(task, dict):
        raise InvalidArgumentError('"task" of TF_CONFIG is not {"type": JOB, "index": N}')
    job, index = task.get("type"), task.get("index")
    try:
        number = None if job is None else int(index or 0)
    except (TypeError, ValueError) as error:
        raise InvalidArgumentError(
            f"the task index of TF_CONFIG is {index!r}, expected an int"
        ) from error
    return content["cluster"], job, number


def _slurm_tasks(
    jobs: Mapping[str, int] | None, port_base: int, environment: Mapping[str, str]
) -> tuple[ClusterSpec, str | None, int | None]:
    """Return the cluster of a Slurm job step, and the task of this process."""
    nodes = _needed(environment, "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST")
    counts = _needed(environment, "SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE")
    rank = _rank(_needed(environment, "SLURM_PROCID"))
    addresses = [
        f"{host}:{port_base + local}"
        for host, count in zip(hosts_of(nodes), _tasks_per_node(counts), strict=False)
        for local in range(count)
    ]
    tasks_per_job = {"worker": len(addresses)} if jobs is None else dict(jobs)
    if sum(tasks_per_job.values()) > len(addresses):
        raise InvalidArgumentError(
            f"the jobs need {sum(tasks_per_job.values())} tasks, Slurm started {len(addresses)}"
        )
    cluster: ClusterSpec = {}
    mine: tuple[str, int] | tuple[None, None] = None, None
    first = 0
    for job, count in tasks_per_job.items():
        cluster[job] = dict(enumerate(addresses[first : first + count]))
        if first <= rank < first + count:
            mine = job, rank - first
        first += count
    return cluster, *mine


def _rank(text: str) -> int:
    if not text.isdecimal():
        raise InvalidArgumentError(f"SLURM_PROCID is {text!r}, expected the rank of the process")
    return int(text)


def hosts_of(nodes: str) -> list[str]:
    """Return the hosts of a Slurm node list such as `gpu[01-03,7],login`.

    Raises:
        InvalidArgumentError: it is malformed.
    """
    hosts = []
    for part in re.findall(r"[^,\[\]]+(?:\[[^\]]*\][^,\[]*)*", nodes):
        match = re.fullmatch(r"([^\[]*)\[([^\]]*)\]([^\[]*)", part)
        if match is None and "[" in part:
            raise InvalidArgumentError(f"the Slurm node list {nodes!r} has two ranges in a name")
        if match is None:
            hosts.append(part)
            continue
        start, numbers, end = match.groups()
        hosts += [f"{start}{number}{end}" for number in _range_numbers(numbers, nodes)]
    if not hosts or nodes.count("[") != nodes.count("]"):
        raise InvalidArgumentError(f"{nodes!r} is not a Slurm node list such as 'node[01-03,7]'")
    return hosts


def _range_numbers(text: str, nodes: str) -> list[str]:
    numbers = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            raise InvalidArgumentError(f"{part!r} in the Slurm node list {nodes!r} is not a range")
        span = range(int(first), int(last or first) + 1)
        numbers += [str(number).zfill(len(first)) for number in span]
    return numbers


def _tasks_per_node(text: str) -> list[int]:
    counts = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)
        if match is None:
            raise InvalidArgumentError(
                f"{text!r} is not a list of tasks per node such as '2(x3),1'"
            )
        counts += [int(match[1])] * int(match[2] or 1)
    return counts


def _needed(environment: Mapping[str, str], *names: str) -> str:
    value = next((environment[name] for name in names if environment.get(name)), None)
    if value is None:
        raise NotFoundError(
            f"the environment has no {' or '.join(names)}; start the process with srun"
        )
    return value
